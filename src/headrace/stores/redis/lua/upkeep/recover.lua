-- Takes messages from holders whose lease ran out: queued again, buried, or ended when their cancellation was
-- asked for. Looks again whether each is still held beyond its lease. Acknowledges first.
--
-- requires: queue message place queueing ordering ending healing limits lines gathering slots
-- keys:     those of the queue
-- args:     lease in milliseconds, then for each: lane · entry · id, empty: it has none that can be read · state, empty:
--           it cannot be read · reason and failure, empty unless it is to be buried
--           What cannot be read is queued as it is: the worker that claims it sends it to the dead letters.
-- answers:  for each: queued, dead, cancelled, or nothing when it was settled or renewed in the meantime
local lease = tonumber(ARGV[5])

local function recover(lane, entry, id, state, reason, failure)
  local row = holder(lane, entry)
  if not row or row[3] < lease then
    return ''
  end
  local message = message_in(lane, entry)
  take_out(lane, entry)
  if message and id == '' then
    redis.call('HDEL', IDS, get(message, 'i') or '')
    redis.call('XADD', lane_key(RETURNED), next_entry(RETURNED), unpack(message))
    note_lane(RETURNED)
    call_once()
    return ''
  end
  local place, flags = place_of(id)
  if not message or (place and place ~= lane .. entry) then
    return ''
  end
  put(message, 'o', get(message, 'o') or (lane .. entry))
  local ttl = cancelled_for(id, flags)
  if ttl then
    finish_cancelled(id, flags, message, ttl)
    return 'cancelled'
  elseif reason ~= '' then
    bury(id, flags, message, state, reason, failure)
    return 'dead'
  end
  if state ~= '' then
    put(message, 's', state)
  end
  enqueue(id, flags, message, true)
  return 'queued'
end

-- Where one of these keys is of another type it ends here, before anything is taken out.
redis.call('HLEN', MESSAGES)
redis.call('ZCARD', DEAD)
local answers = {}
for at = 6, #ARGV, 6 do
  answers[#answers + 1] = recover(tonumber(ARGV[at]) or HELD, unpack(ARGV, at + 1, at + 5))
end
return answers
