-- Releases unique keys that are held until the start, for messages that were just claimed.
--
-- requires: queue message place queueing ordering ending
-- keys:     those of the queue
-- args:     for each: id · unique key
for at = 5, #ARGV, 2 do
  release(ARGV[at + 1], ARGV[at])
end
return 1
