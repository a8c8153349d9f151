-- Lists the oldest dead letters, the oldest first.
--
-- requires: queue
-- keys:     those of the queue
-- args:     limit
-- answers:  the microsecond now · ids and microseconds of death, by turns
return { digits(clock()), redis.call('ZRANGE', DEAD, 0, tonumber(ARGV[5]) - 1, 'WITHSCORES') }
