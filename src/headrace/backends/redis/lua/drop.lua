-- Forgets a part in which nothing is left: what stays of a stream when its messages are over.
--
-- requires: queue
-- keys:     those of the queue or topic
for lane = 0, 9 do
  redis.call('DEL', lane_key(lane))
end
redis.call('DEL', META, SCHEDULES, PRODUCER)
if KEYS[21] then
  redis.call('DEL', KEYS[21], KEYS[22]) -- the log, the names of groups
end
return 1
