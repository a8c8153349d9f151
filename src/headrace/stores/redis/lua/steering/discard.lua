-- Forgets dead letters.
--
-- requires: queue
-- keys:     those of the queue
-- args:     ids
-- answers:  how many there were
local count = 0
for at = 5, #ARGV do
  local id = ARGV[at]
  if redis.call('ZREM', DEAD, id) == 1 then
    redis.call('HDEL', MESSAGES, id)
    redis.call('HDEL', IDS, id)
    count = count + 1
  end
end
return count
