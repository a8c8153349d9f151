-- Makes held entries look older, for tests that move time.
--
-- requires: queue
-- keys:     those of the queue
-- args:     milliseconds
for _, lane in ipairs(lanes()) do
  for _, row in ipairs(redis.pcall('XPENDING', lane_key(lane), GROUP, '-', '+', 100000)) do
    local idle = row[3] + tonumber(ARGV[5])
    redis.call('XCLAIM', lane_key(lane), GROUP, row[2], 0, row[1], 'IDLE', idle, 'JUSTID')
  end
end
return 1
