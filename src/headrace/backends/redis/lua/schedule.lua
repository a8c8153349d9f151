-- Keeps a schedule whole, first seen now, unless there is one of that name, and announces it.
--
-- requires: queue
-- keys:     those of the queue
-- args:     name · definition
-- answers:  what stands there then: last moment · last that was fired · 1 when paused · definition
local name = ARGV[5]
if redis.call('HSETNX', SCHEDULES, 'l:' .. name, digits(clock())) == 1 then
  redis.call('HSET', SCHEDULES, 'd:' .. name, ARGV[6])
  redis.call('PUBLISH', ORDERS, 'schedule ' .. LABEL)
end
return redis.call('HMGET', SCHEDULES, 'l:' .. name, 'f:' .. name, 'p:' .. name, 'd:' .. name)
