-- Moves the position of a group, and draws from there for members that wait. What it has drawn before stays, except
-- what is drawn anew in order (see clearing.lua).
--
-- requires: queue message place queueing counting ordering topic drawing clearing
-- keys:     those of the group
-- args:     where to: new, beginning, time or position, or further: go on with what was begun · the time, or the
--           position
-- answers:  1, 2 when it must be called again to go on, or 0 when there is no such group
local group = own_group()
if not group.position and redis.call('HGET', GROUPS, string.match(LABEL, '/(.*)$')) ~= '1' then
  return 0
end
local last = last_number(redis.call('HGET', TOPIC, 'last'))
if ARGV[5] ~= 'further' then
  local before = math.max(group.again, group.position or 0)
  group.position = position_of(ARGV[5], tonumber(ARGV[6]), last)
  group.low, group.deferring, group.clearing = nil, 0, redis.call('EXISTS', LINES) == 1 and 'K0'
  redis.call('DEL', DEFERRED)
  redis.call('HDEL', META, 'low', 'deferring')
  redis.call('HSET', META, 'position', group.position, 'again', digits(before))
end
if group.clearing and not clear_step(group) then
  return 2
end
if is_awaited(group, clock()) then
  draw(group, last, DRAWN_ITEMS)
end
return 1
