-- Ends a waiting message as cancelled, or asks for the cancellation of a running one.
--
-- requires: queue message place queueing ordering ending expiry healing limits lines
-- keys:     those of the queue
-- args:     id · microseconds for which the end record stays
-- answers:  removed, requested or gone
local id, ttl = ARGV[5], ARGV[6]
local place, flags = place_of(id)
local message = place and message_at(place, id)
if not message or place == 'D' or waits_expired(place, message, clock()) then
  return 'gone'
end

local lane, entry = entry_at(place)
if lane and holder(lane, entry) then
  redis.call('HDEL', CANCEL, id) -- a removal first: it is not refused when memory is short
  if not string.find(flags, 'c', 1, true) then
    set_place(id, place, flags .. 'c')
  end
  redis.call('HSET', CANCEL, id, ttl)
  redis.call('PUBLISH', NOTICES, 'cancel ' .. LABEL .. ' ' .. id)
  return 'requested'
end

if lane then
  redis.call('XDEL', lane_key(lane), entry)
else
  unpark(id, place)
end
finish_cancelled(id, flags, message, tonumber(ttl))
return 'removed'
