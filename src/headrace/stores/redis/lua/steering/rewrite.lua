-- Replaces the body of a scheduled, retrying or dead message.
--
-- requires: queue message place
-- keys:     those of the queue
-- args:     id · body
-- answers:  1, or 0 when it is none of these
local packed = redis.call('HGET', MESSAGES, ARGV[5])
if not packed or string.find(place_of(ARGV[5]) or '', '^[a-jKx]') then
  return 0
end
local message = unpacked(ARGV[5], packed)
put(message, 'm', ARGV[6])
redis.call('HSET', MESSAGES, ARGV[5], cmsgpack.pack(message))
return 1
