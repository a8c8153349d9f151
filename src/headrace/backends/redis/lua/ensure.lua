-- Makes the group of every lane and stores the lease.
--
-- requires: queue
-- keys:     those of the queue
-- args:     lease in microseconds, or empty: only the groups
-- answers:  the lease that stood there before
for lane = 1, 5 do
  -- It may be there. Queues are read from the beginning: what is done is deleted.
  redis.pcall('XGROUP', 'CREATE', KEYS[lane], GROUP, '0', 'MKSTREAM')
end
local before = redis.call('HGET', META, 'lease')
if ARGV[5] ~= '' then
  redis.call('HSET', META, 'lease', ARGV[5])
end
return before
