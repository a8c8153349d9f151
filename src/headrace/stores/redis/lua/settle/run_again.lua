-- Settles what is to run again: queued at once, or parked until it is due. What was asked to be cancelled
-- ends instead. Acknowledges first, so that it passes when the server has no memory left.
--
-- requires: queue due message place queueing ordering ending
-- keys:     those of the queue
-- args:     for each message: id · lane · entry · consumer · where to (S, R, L: a lane, or g followed by its
--           constraints from now on, which needs the script for messages with constraints) · delay ·
--           1: it was handed back, 2: and was not started, or 0 · state, empty: as it is
-- answers:  the indices, from 0, of those that were lost
local lost, before, soonest = {}, nil, nil
local asked = false

local function again(id, lane, entry, consumer, to, delay, returned, state)
  local is_held, flags = held(id, lane, entry, consumer)
  local message = is_held and message_in(lane, entry)
  if not message then
    return false
  end
  local constraints = string.match(to, '^g(.*)$')
  if to ~= 'L' and not constraints and not asked then
    -- Before anything is taken out: where one of these keys is of another type, it ends here, and nothing is lost.
    redis.call('HLEN', MESSAGES)
    asked, before = true, first_due()
  end
  take_out(lane, entry, returned == '2')
  local ttl = cancelled_for(id, flags)
  if ttl then
    finish_cancelled(id, flags, message, ttl)
    return true
  end
  if state ~= '' then
    put(message, 's', state)
  end
  put(message, 'o', get(message, 'o') or (lane .. entry))
  if constraints then
    put(message, 'g', constraints)
    enqueue(id, flags, message)
    return true
  elseif to == 'L' then
    enqueue(id, flags, message, returned ~= '0')
    return true
  end
  local due = clock() + delay
  park(id, flags, message, to, due)
  soonest = math.min(soonest or due, due)
  return true
end

for at = 5, #ARGV, 8 do
  local lane = tonumber(ARGV[at + 1]) or HELD
  if not again(ARGV[at], lane, unpack(ARGV, at + 2, at + 7)) then
    lost[#lost + 1] = (at - 5) / 8
  end
end
announce_if_sooner(before, soonest)
return lost
