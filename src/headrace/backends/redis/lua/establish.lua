-- Makes a record, first seen now, for each declared schedule that has none.
--
-- requires: queue
-- keys:     those of the queue
-- args:     names
local now = digits(clock())
for at = 5, #ARGV do
  redis.call('HSETNX', SCHEDULES, 'l:' .. ARGV[at], now)
end
return 1
