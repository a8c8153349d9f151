-- Forgets a schedule, and announces it. Its jobs stay.
--
-- requires: queue
-- keys:     those of the queue
-- args:     name
-- answers:  1, or 0 when there is no such schedule
local name = ARGV[5]
local found = redis.call('HDEL', SCHEDULES, 'l:' .. name)
redis.call('HDEL', SCHEDULES, 'f:' .. name, 'p:' .. name, 'd:' .. name, 't:' .. name)
redis.call('PUBLISH', ORDERS, 'schedule ' .. LABEL)
return found
