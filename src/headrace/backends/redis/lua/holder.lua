-- Names the message that holds a unique key.
--
-- requires: queue message place expiry unique
-- keys:     those of the queue
-- args:     key
-- answers:  its id, empty: nobody holds it
return holder_of(ARGV[5], clock()) or ''
