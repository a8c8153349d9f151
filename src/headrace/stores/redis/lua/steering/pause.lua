-- Pauses or resumes a queue, and announces it.
--
-- requires: queue moved
-- keys:     those of the queue
-- args:     1 or 0
local moved = moved_answer(text_at(PRODUCER))
if moved then
  return moved
end
if ARGV[5] == '1' then
  redis.call('HSET', META, 'paused', '1')
else
  redis.call('HDEL', META, 'paused')
end
redis.call('PUBLISH', NOTICES, 'pause ' .. LABEL .. ' ' .. ARGV[5])
return 1
