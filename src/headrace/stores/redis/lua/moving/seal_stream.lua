-- Seals a stream of a store whose content moves to another store, or removes this seal. A sealed stream is paused;
-- `held` remembers whether it was paused before.
--
-- requires: queue
-- keys:     those of the stream
-- args:     stage and target, with a blank between, or empty: remove the seal
if ARGV[5] ~= '' then
  redis.call('DEL', PRODUCER) -- a removal first: what follows is not refused when memory is short
  redis.call('SET', PRODUCER, ARGV[5])
  if redis.call('HEXISTS', META, 'held') == 0 then
    redis.call('HSET', META, 'held', redis.call('HGET', META, 'paused') or '0', 'paused', '1')
  elseif string.sub(ARGV[5], 1, 6) == 'moved ' then -- its pause has moved, too
    redis.call('HSET', META, 'held', '0')
  end
  redis.call('PUBLISH', NOTICES, 'pause ' .. LABEL .. ' 1')
  return 1
end
if redis.call('HGET', META, 'sealed') == '1' then
  redis.call('SET', PRODUCER, '1')
else
  redis.call('DEL', PRODUCER)
end
local held = redis.call('HGET', META, 'held')
redis.call('HDEL', META, 'held')
if held and held ~= '1' then
  redis.call('HDEL', META, 'paused')
  redis.call('PUBLISH', NOTICES, 'pause ' .. LABEL .. ' 0')
end
return 1
