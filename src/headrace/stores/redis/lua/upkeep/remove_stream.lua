-- Forgets a group with everything that it has drawn, and remembers that it was removed; or a queue or topic in which
-- nothing is left.
--
-- requires: queue topic outbox history
-- keys:     those of the stream
-- answers:  1, or 0: a queue or topic that is in use stays; there is no such group
local group = string.match(LABEL, '/(.*)$')
local OUT_OF_LANES = string.sub(META, 1, -5)

local function has_groups()
  local names = GROUPS and redis.call('HGETALL', GROUPS) or {}
  for at = 2, #names, 2 do
    if names[at] == '1' then
      return true
    end
  end
  return false
end

local function is_in_use()
  for lane = 0, 10 do
    if redis.call('XLEN', lane_key(lane < 10 and lane or HELD)) > 0 then
      return true
    end
  end
  return redis.call('EXISTS', DUE, RETRY, DEAD, SCHEDULES, OUTBOX, OUT_OF_LANES .. 'lined', OUT_OF_LANES .. 'parked') > 0
    or (LOG and redis.call('XLEN', LOG) > 0)
    or has_groups()
end

if group then
  local known = redis.call('HGET', GROUPS, group) == '1' or redis.call('HEXISTS', META, 'position') == 1
  redis.call('DEL', unpack(KEYS, 1, 13))
  redis.call('DEL', PROGRESS, SCHEDULES, PARKED, LINES, DEFERRED)
  if known then
    redis.call('HSET', GROUPS, group, 0)
  end
  return known and 1 or 0
end
if is_in_use() then
  return 0
end
for lane = 0, 9 do
  redis.call('DEL', lane_key(lane), lane_key(lane) .. '/open')
end
redis.call('DEL', lane_key(HELD), META, PRODUCER, BATCH, HISTORY, HEADS, CONTENTS)
if LOG then
  redis.call('DEL', LOG, GROUPS)
end
return 1
