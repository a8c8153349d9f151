-- Puts messages that were never queued into the dead letters, unless their ids are known.
--
-- requires: queue message place queueing ordering ending
-- keys:     those of the queue
-- args:     for each message: id · task · body · priority · 1 or 0: child work · unique key with its kind in front, or
--           empty · reason · failure
local now = clock()

local function is_known(id)
  local record = text_at(END_RECORD .. id)
  return place_of(id) or (record and (tonumber(string.match(record, '^%d+ (%d+)') or '') or 0) > now)
end

for at = 5, #ARGV, 8 do
  local id, task, body, priority, child, unique, reason, failure = unpack(ARGV, at, at + 7)
  if not is_known(id) then
    local message = { 'i', id, 't', task, 'm', body }
    put(message, 'p', priority ~= '1' and priority)
    put(message, 'c', child == '1' and child)
    put(message, 'u', unique ~= '' and unique)
    bury(id, '', message, nil, reason, failure)
  end
end
return 1
