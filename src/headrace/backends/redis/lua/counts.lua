-- Counts the messages in each state without looking at them.
--
-- requires: queue counting
-- keys:     those of the queue
-- answers:  queued · running · scheduled · retrying · dead · due · since when the oldest is queued · paused
local queued, running, oldest = 0, 0, nil
for lane = 1, 5 do
  local last, pending = group_of(lane)
  queued = queued + redis.call('XLEN', KEYS[lane]) - pending
  running = running + pending
  local first = redis.call('XRANGE', KEYS[lane], '(' .. (last or '0-0'), '+', 'COUNT', 1)[1]
  if first then
    local added = tonumber(string.match(first[1], '^%d+')) * 1000
    oldest = math.min(oldest or added, added)
  end
end
local now = digits(clock())
return {
  queued,
  running,
  redis.call('ZCARD', DUE),
  redis.call('ZCARD', RETRY),
  redis.call('ZCARD', DEAD),
  redis.call('ZCOUNT', DUE, '-inf', now) + redis.call('ZCOUNT', RETRY, '-inf', now),
  oldest or 0,
  redis.call('HGET', META, 'paused') or '0',
}
