-- Registers a process that waits for the end of a message, unless that is over.
--
-- requires: queue message place expiry describing
-- keys:     those of the queue
-- args:     id · channel of the process · milliseconds for which registrations hold
-- answers:  nothing when it was registered, else 0 or 1 rows (see shared/messages/describing.lua)
local id, channel = ARGV[5], ARGV[6]
local row = row_of_id(id, clock())
local over = { succeeded = true, dead = true, cancelled = true, expired = true }
if not row or over[row[2]] then
  return { row }
end
local channels = redis.call('HGET', WAITERS, id) or ''
redis.call('HDEL', WAITERS, id) -- a removal first: it is not refused when memory is short
local place, flags = place_of(id)
if not string.find(flags, 'w', 1, true) then
  set_place(id, place, flags .. 'w')
end
if not string.find(channels, channel, 1, true) then
  channels = channels .. ' ' .. channel
end
redis.call('HSET', WAITERS, id, channels)
redis.call('PEXPIRE', WAITERS, ARGV[7])
return false
