-- Replaces the layout of a stream if it is the one that was expected, and announces it.
--
-- requires: queue
-- keys:     those of the queue or topic
-- args:     the layout as expected, empty: none · the new one
-- answers:  what stands there then
local stored = redis.call('HGET', META, 'layout') or ''
if stored ~= ARGV[5] then
  return stored
end
redis.call('HSET', META, 'layout', ARGV[6])
redis.call('PUBLISH', ORDERS, 'layout ' .. LABEL)
return ARGV[6]
