-- Extends leases of entries that are still held, and never takes one from another consumer.
--
-- The delivery count is not needed as such, so from the first renewal on it holds the millisecond at which
-- the message was claimed: renewals overwrite the only other trace of it.
--
-- requires: queue place
-- keys:     those of the queue
-- args:     empty, or after an outage the lease of a queue that has none: then nothing is taken for one lease ·
--           for each claim: id · lane · entry · consumer
-- answers:  for each: k kept, l lost, c kept, but its cancellation was asked for
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function renew(id, lane, entry, consumer)
  local place, flags = place_of(id)
  local row = place == lane .. entry and holder(lane, entry)
  if not row or row[2] ~= consumer then
    return 'l'
  end
  local claimed = row[4] > 1000000000 and row[4] or now - row[3]
  redis.call('XCLAIM', lane_key(lane), GROUP, consumer, 0, entry, 'RETRYCOUNT', claimed, 'JUSTID')
  return string.find(flags, 'c', 1, true) and 'c' or 'k'
end

local answers = {}
for at = 6, #ARGV, 4 do
  answers[#answers + 1] = renew(ARGV[at], tonumber(ARGV[at + 1]) or HELD, ARGV[at + 2], ARGV[at + 3])
end
if ARGV[5] ~= '' then
  local lease = tonumber(redis.call('HGET', META, 'lease') or ARGV[5])
  redis.call('HDEL', META, 'patient') -- a removal first: it is not refused when memory is short
  redis.call('HSET', META, 'patient', digits(clock() + lease))
end
return answers
