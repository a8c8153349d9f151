-- Writes entries of the history, and forgets the oldest beyond the limits.
--
-- requires: queue history
-- keys:     those of the queue
-- args:     most entries, or - · most bytes, or - · how many may be forgotten · for each entry: id · ended · kept until ·
--           size · status · task · content
for at = 8, #ARGV, 7 do
  put_history(unpack(ARGV, at, at + 6))
end
if redis.call('ZCARD', HISTORY) > 0 then
  trim_history(tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]))
end
return 1
