-- Pauses a schedule, or lets it go on with the moments after now, and announces it.
--
-- requires: queue
-- keys:     those of the queue
-- args:     name · 1 or 0
-- answers:  1, or 0 when there is no such schedule
local name = ARGV[5]
if redis.call('HEXISTS', SCHEDULES, 'l:' .. name) == 0 then
  return 0
end
if ARGV[6] == '1' then
  redis.call('HSET', SCHEDULES, 'p:' .. name, '1')
elseif redis.call('HDEL', SCHEDULES, 'p:' .. name) == 1 then
  redis.call('HSET', SCHEDULES, 'l:' .. name, digits(clock()))
end
redis.call('PUBLISH', ORDERS, 'schedule ' .. LABEL)
return 1
