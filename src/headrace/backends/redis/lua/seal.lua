-- Lets nothing be appended to a part any more.
--
-- requires: queue
-- keys:     those of the queue or topic
redis.call('SET', PRODUCER, '1')
return 1
