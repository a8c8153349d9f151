-- Writes the seal of the store, or the names of streams that are to be sealed. A removal comes first: what follows
-- is not refused when memory is short.
--
-- keys:     the seal, or the set of names
-- args:     the seal, or 'names' · the names
if ARGV[1] == 'names' then
  redis.call('SREM', KEYS[1], unpack(ARGV, 2))
  return redis.call('SADD', KEYS[1], unpack(ARGV, 2))
end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1])
return 1
