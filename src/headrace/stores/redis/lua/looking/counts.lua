-- Counts the messages in each state without looking at them. What a group has not drawn yet is queued, too, and
-- so are the events of a topic's log.
--
-- requires: queue counting topic behind
-- keys:     those of the stream
-- answers:  queued · running · scheduled · retrying · dead · due · since when the oldest is queued · paused ·
--           of a group: how many of the queued it has not drawn · its position · when the oldest event that
--           no handler has begun with was written · when a member was last seen · 1 when it is ordered
local queued, running = 0, 0
for _, lane in ipairs(lanes()) do
  local _, pending = group_of(lane)
  queued = queued + length_of(lane) - pending
  running = running + pending
end
local oldest = oldest_in_lanes() or 0
if not LOG then
  -- Those of a queue that are in lines, or parked until their key is free.
  for _, name in ipairs({ 'lined', 'parked' }) do
    local first = redis.pcall('ZRANGE', string.sub(META, 1, -5) .. name, 0, 0, 'WITHSCORES')
    local since = tonumber(first[2])
    queued = queued + waiting_in(name)
    oldest = since and (oldest == 0 or since < oldest) and since or oldest
  end
end
local now = digits(clock())
local counts = {
  queued,
  running,
  redis.call('ZCARD', DUE),
  redis.call('ZCARD', RETRY),
  redis.call('ZCARD', DEAD),
  redis.call('ZCOUNT', DUE, '-inf', now) + redis.call('ZCOUNT', RETRY, '-inf', now),
  oldest,
  redis.call('HGET', META, 'paused') or '0',
}
if LOG then
  add_behind(counts)
end
return counts
