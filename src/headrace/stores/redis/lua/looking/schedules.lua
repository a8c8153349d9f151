-- All that is known of the schedules of a queue.
--
-- requires: queue
-- keys:     those of the queue
-- answers:  the store's time · the fields of `:sched` and their values
return { digits(clock()), redis.call('HGETALL', SCHEDULES) }
