-- Queues a scheduled or retrying message now.
--
-- requires: queue message place queueing ordering ending healing limits lines
-- keys:     those of the queue
-- args:     id
-- answers:  1, or 0 when it is neither
local id = ARGV[5]
local place, flags = place_of(id)
local packed = (place == 'S' or place == 'R') and redis.call('HGET', MESSAGES, id)
if not packed then
  return 0
end
enqueue(id, flags, unpacked(id, packed))
unpark(id, place)
return 1
