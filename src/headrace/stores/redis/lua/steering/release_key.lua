-- Frees a unique key.
--
-- requires: queue message place queueing ordering ending expiry expiring unique
-- keys:     those of the queue
-- args:     key
-- answers:  1, or 0: it is free
local held = holder_of(ARGV[5], clock())
redis.call('DEL', UNIQUE .. ARGV[5])
return held and 1 or 0
