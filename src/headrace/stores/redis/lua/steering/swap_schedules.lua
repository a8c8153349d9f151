-- Replaces records of schedules that are as expected. With one swap there may be messages, which are appended in the
-- same step.
--
-- requires: queue message place queueing counting moved ordering ending expiry expiring unique healing limits lines
-- calls:    append
-- keys:     those of the queue
-- args:     those of append.lua, without a limit, if there are messages; then for each swap: name · 1 or 0: announce
--           it · the record as expected · the new one; then the number of swaps. A record is five words: last moment,
--           empty: no record, 'now': the store's time · last that was fired · 1: paused · definition · timetable;
--           each empty if there is none
-- answers:  the store's time · for each swap 1: done, nil: refused, and no record is stored, or the values of the
--           fields that are stored
local FIELDS, WORDS = { 'l:', 'f:', 'p:', 'd:', 't:' }, 12
local number_of_swaps = tonumber(table.remove(ARGV))
local swaps = { unpack(ARGV, #ARGV - number_of_swaps * WORDS + 1) }
for _ = 1, #swaps do
  table.remove(ARGV)
end
local now = clock()
local moved = moved_answer(text_at(PRODUCER))
if moved then
  return moved
end

local function number_in(text)
  return tonumber(string.match(text or '', '^%d+$') or '')
end

local function stored_record(name)
  local names = {}
  for index, field in ipairs(FIELDS) do
    names[index] = field .. name
  end
  return redis.call('HMGET', SCHEDULES, unpack(names))
end

-- Values are compared, not what was written. Without a time that can be read there is no record.
local function is_expected(stored, at)
  local last = number_in(stored[1])
  if last ~= number_in(swaps[at]) or not last then
    return not last and swaps[at] == ''
  end
  return (number_in(stored[2]) or 0) == (number_in(swaps[at + 1]) or 0)
    and (stored[3] and '1' or '') == swaps[at + 2]
    and (stored[4] or '') == swaps[at + 3]
    and (stored[5] or '') == swaps[at + 4]
end

-- A clock may be set back. Then the stored moment is ahead of it, and may stay.
local function is_ahead(last, stored)
  return last and last > now and last ~= number_in(stored[1])
end

local function write(name, stored, at)
  local gone, changed = {}, {}
  for index, field in ipairs(FIELDS) do
    local value = swaps[at + index - 1]
    if value == '' then
      gone[#gone + 1] = stored[index] and field .. name or nil
    elseif value ~= stored[index] then
      changed[#changed + 1] = field .. name
      changed[#changed + 1] = value
    end
  end
  -- A server without memory refuses what comes first if it needs memory: so a schedule is fired as a whole or not at
  -- all, and it can be resumed and removed all the same.
  if #gone > 0 then
    redis.call('HDEL', SCHEDULES, unpack(gone))
  end
  if #changed > 0 then
    redis.call('HSET', SCHEDULES, unpack(changed))
  end
end

local answers = { digits(now) }
for at = 1, #swaps, WORDS do
  local name, expected, new = swaps[at], at + 2, at + 7
  local stored = stored_record(name)
  if not is_expected(stored, expected) or is_ahead(number_in(swaps[new]), stored) then
    answers[#answers + 1] = number_in(stored[1]) and stored or false
  else
    swaps[new] = swaps[new] == 'now' and answers[1] or swaps[new]
    write(name, stored, new)
    if swaps[at + 1] == '1' then
      redis.call('PUBLISH', NOTICES, 'schedule ' .. LABEL)
    end
    answers[#answers + 1] = 1
    local answer = #ARGV > 4 and append()
    if answer and answer.err then
      return answer
    end
  end
end
return answers
