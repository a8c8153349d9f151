-- Stores the rules of a topic.
--
-- requires: queue topic moved
-- keys:     those of the topic
-- args:     age in microseconds, length or -, 1 or 0: strict, in one word with blanks between
-- answers:  1
local moved = moved_answer(text_at(PRODUCER))
if moved then
  return moved
end
if is_sealed() then
  return redis.error_reply('SEALED the parts of this topic take its place')
end
local last = last_number(redis.call('HGET', TOPIC, 'last'))
redis.call('HDEL', TOPIC, 'look') -- a removal first: it is not refused when memory is short
redis.call('HSET', TOPIC, 'rules', ARGV[5], 'last', last)
return 1
