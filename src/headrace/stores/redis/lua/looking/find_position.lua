-- Finds where a reader begins.
--
-- requires: queue topic
-- keys:     those of the topic
-- args:     new, beginning or time · the time
-- answers:  the position
return position_of(ARGV[5], tonumber(ARGV[6]), last_number(redis.call('HGET', TOPIC, 'last')))
