-- Settles what ends without a result: cancelled or expired, with an end record.
--
-- requires: queue message place queueing ordering ending expiring
-- keys:     those of the queue
-- args:     for each message: id · lane · entry · consumer · task · unique key · status · time to live ·
--           state
-- answers:  the indices, from 0, of those that were lost
local lost = {}
for at = 5, #ARGV, 9 do
  local id, lane, entry = ARGV[at], tonumber(ARGV[at + 1]) or HELD, ARGV[at + 2]
  local is_held, flags = held(id, lane, entry, ARGV[at + 3])
  if is_held then
    take_out(lane, entry)
    local task, unique, status, ttl, state = unpack(ARGV, at + 4, at + 8)
    if status == 'expired' then
      finish_expired(id, flags, unique, tonumber(ttl), task, state)
    else
      finish(id, flags, unique, tonumber(ttl), end_record(status, task, state))
    end
  else
    lost[#lost + 1] = (at - 5) / 9
  end
end
return lost
