-- Opens lines for tokens that came back.
local TIMERS_MOST = 100

-- Whether it is time to look; also when the clock was set back.
local function is_time(limit, timer, now)
  local rate = figures_of(limit.name)
  if not rate or not rate.count or timer <= now then
    return true
  end
  local tolerance = tolerance_of(rate)
  local opens = math.max(now, next_moment(rate, limit.budget, now) - tolerance)
  return timer > opens + math.min(GATHER_US, math.floor(tolerance / 2)) + LOOK_US
end

-- Answers when to look next (nil: no line of any stream waits for tokens, or this stream has no lines), and how many
-- limits it has looked at.
local function look_for_tokens(now)
  if not uses_lines() then
    return nil, 0
  end
  for looks = 1, TIMERS_MOST do
    local first = redis.call('ZRANGE', LIMITS .. 'timers', 0, 0, 'WITHSCORES')
    local limit = first[1] and limit_of(first[1])
    if not limit or not is_time(limit, tonumber(first[2]), now) then
      return tonumber(first[2]), looks - 1
    end
    redis.call('ZREM', LIMITS .. 'timers', limit.budget)
    offer(limit, now)
    -- A line that was opened goes on by itself, unless there are more streams.
    if redis.call('ZCARD', LIMITS .. 'streams/' .. limit.budget) > STREAMS_MOST then
      set_timer(limit, now)
    end
  end
  return now, TIMERS_MOST
end
