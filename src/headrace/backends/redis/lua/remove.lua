-- Forgets a group with everything that it has drawn, and remembers that it was removed.
--
-- requires: queue topic
-- keys:     those of the group
-- answers:  1, or 0 when there is no such group
local name = string.match(LABEL, '/(.*)$')
local known = redis.call('HGET', GROUPS, name) == '1' or redis.call('HEXISTS', META, 'position') == 1
if known then
  redis.call('UNLINK', unpack(KEYS, 1, 13))
  redis.call('UNLINK', PROGRESS, SCHEDULES, PARKED, LINES, DEFERRED)
  redis.call('HSET', GROUPS, name, 0)
end
return known and 1 or 0
