-- After the server's clock went back: entries that seem to have been renewed in the future are renewed now, since
-- they would be held until the clock has come there again. When all are done nothing is taken for one lease.
--
-- requires: queue
-- keys:     those of the queue
-- args:     place of a lane, and entry to go on after · how many to look at · the lease of a queue that has none
-- answers:  place of a lane, and entry to go on after, 0 when all were looked at
local at, after, budget = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local in_order = lanes()
while in_order[at] do
  local lane = lane_key(in_order[at])
  local start = after == '' and '-' or '(' .. after
  local rows = redis.pcall('XPENDING', lane, GROUP, start, '+', budget)
  for _, row in ipairs(rows) do
    after, budget = row[1], budget - 1
    if row[3] == 0 then
      redis.call('XCLAIM', lane, GROUP, row[2], 0, row[1], 'IDLE', 0, 'JUSTID')
    end
  end
  if budget == 0 then
    return { at, after }
  end
  at, after = at + 1, ''
end
local now = clock()
local lease = tonumber(redis.call('HGET', META, 'lease') or ARGV[8])
redis.call('HDEL', META, 'patient', 'looked')
redis.call('HSET', META, 'patient', digits(now + lease), 'looked', digits(now))
return { 0, '' }
