-- Takes back the registration of a process that no longer waits.
--
-- requires: queue
-- keys:     those of the queue
-- args:     id · channel of the process
local id, channel = ARGV[5], ARGV[6]
local others = {}
for other in string.gmatch(redis.call('HGET', WAITERS, id) or '', '%S+') do
  if other ~= channel then
    others[#others + 1] = other
  end
end
if #others > 0 then
  redis.call('HSET', WAITERS, id, table.concat(others, ' '))
else
  redis.call('HDEL', WAITERS, id)
end
return 1
