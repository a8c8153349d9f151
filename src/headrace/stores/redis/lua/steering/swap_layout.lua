-- Replaces the layout of a stream if it is the one that was expected, and announces it. A topic that is in use keeps
-- being whole.
--
-- requires: queue topic moved
-- keys:     those of the queue or topic
-- args:     the layout as expected, empty: none · the new one · 1 or 0: nothing more is appended to this very stream
-- answers:  what is stored then
local moved = moved_answer(text_at(PRODUCER))
if moved then
  return moved
end
local stored = redis.call('HGET', META, 'layout') or ''
if stored ~= ARGV[5] then
  return stored
end
-- What was published for later does not number anything yet.
if TOPIC and stored == '' and (redis.call('HEXISTS', TOPIC, 'last') == 1 or redis.call('EXISTS', LOG, DUE) > 0) then
  return stored
end
redis.call('HSET', META, 'layout', ARGV[6], 'sealed', ARGV[7])
-- Where appends look for it: a value at the prefix itself, where no producer has one.
if ARGV[7] == '1' then
  redis.call('SET', PRODUCER, '1')
else
  redis.call('DEL', PRODUCER)
end
redis.call('PUBLISH', NOTICES, 'layout ' .. LABEL)
return ARGV[6]
