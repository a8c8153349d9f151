-- Ends a promotion that would change nothing. This comes before the parts that only the others need: hundreds of workers
-- ask where one finds something, and most of the time of such a call would be spent on making functions.
local MEND_EVERY_US = 3000000

local function is_mended(now)
  local mended = tonumber(redis.call('HGET', META, 'mended') or '') or 0
  return mended <= now and now < mended + MEND_EVERY_US
end

local function uses_lines()
  return string.find(redis.call('HGET', META, 'lanes') or '', '[a-j]')
end

-- The time of the first limit whose tokens come back; nil: no line waits for tokens. Where another program has written
-- something else, it is 0: the rest of the script removes that (see healing.lua).
local function first_timer()
  local timers = uses_lines() and redis.pcall('ZRANGE', KEYS[#KEYS] .. 'timers', 0, 0, 'WITHSCORES')
  return timers and (timers.err and 0 or tonumber(timers[2]))
end

local function soonest_of(due, timer)
  return due and timer and math.min(due, timer) or due or timer
end

-- Another worker may have opened the lines of this stream when it promoted another stream: then -1.
local function known_promotions()
  return uses_lines() and -1 or promotions()
end

do
  local now = clock()
  local soonest = soonest_of(first_due(), first_timer())
  if (LINES or is_mended(now)) and not (soonest and soonest <= now) then
    return { 0, soonest and soonest - now or -1, 0, known_promotions() }
  end
end
