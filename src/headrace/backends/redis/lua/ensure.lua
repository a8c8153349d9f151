-- Makes the group of every lane and stores the lease. One that is shortened holds as it was until it would have
-- run out. Announces a change.
--
-- requires: queue
-- keys:     those of the queue
-- args:     lease in microseconds, or empty: only the groups
-- answers:  the lease that stood there before
for _, lane in ipairs(lanes()) do
  -- It may be there. Queues are read from the beginning: what is done is deleted.
  redis.pcall('XGROUP', 'CREATE', lane_key(lane), GROUP, '0', 'MKSTREAM')
end
if redis.call('EXISTS', lane_key(0), lane_key(6), lane_key(7), lane_key(8), lane_key(9)) > 0 then
  redis.call('HSET', META, 'child', '1') -- somebody may have deleted it by hand
end
local meta = redis.call('HMGET', META, 'lease', 'longer', 'until')
local before = meta[1]
if ARGV[5] == '' or ARGV[5] == before then
  return before
end

redis.call('HSET', META, 'lease', ARGV[5])
if before then
  local now, was, lease = clock(), tonumber(before), tonumber(ARGV[5])
  local last = tonumber(meta[3] or 0)
  local held = now < last and math.max(was, tonumber(meta[2])) or was
  if lease >= held then
    redis.call('HDEL', META, 'longer', 'until')
  else
    last = math.max(last, lease < was and now + was or 0)
    redis.call('HSET', META, 'longer', digits(held), 'until', digits(last))
  end
  redis.call('PUBLISH', ORDERS, 'lease ' .. LABEL .. ' ' .. ARGV[5])
end
return before
