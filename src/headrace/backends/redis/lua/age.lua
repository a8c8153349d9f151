-- Makes held entries look older, for tests that move time.
--
-- requires: queue
-- keys:     those of the queue
-- args:     milliseconds
for lane = 1, 5 do
  for _, row in ipairs(redis.pcall('XPENDING', KEYS[lane], GROUP, '-', '+', 100000)) do
    local idle = row[3] + tonumber(ARGV[5])
    redis.call('XCLAIM', KEYS[lane], GROUP, row[2], 0, row[1], 'IDLE', idle, 'JUSTID')
  end
end
return 1
