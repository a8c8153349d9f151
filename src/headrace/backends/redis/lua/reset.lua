-- Moves the position of a group, and draws from there for those who wait. What it has drawn before stays.
--
-- requires: queue message place queueing topic drawing
-- keys:     those of the group
-- args:     where to: new, beginning, time or position · the time, or the position
-- answers:  1, or 0 when there is no such group
local group = own_group()
if not group.position and redis.call('HGET', GROUPS, string.match(LABEL, '/(.*)$')) ~= '1' then
  return 0
end
local last = last_number(redis.call('HGET', TOPIC, 'last'))
group.position = position_of(ARGV[5], tonumber(ARGV[6]), last)
redis.call('HSET', META, 'position', group.position)
if is_awaited(group, clock()) then
  draw(group, last, DRAWN_ITEMS)
end
return 1
