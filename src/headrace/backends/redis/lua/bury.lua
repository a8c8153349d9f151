-- Settles what goes to the dead letters. Acknowledges first, so that it passes when the server has no memory
-- left.
--
-- requires: queue message place queueing ordering ending
-- keys:     those of the queue
-- args:     for each message: id · lane · entry · consumer · state · reason · failure
-- answers:  the indices, from 0, of those that were lost
local lost = {}
for at = 5, #ARGV, 7 do
  local id, lane, entry = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local is_held, flags = held(id, lane, entry, ARGV[at + 3])
  local message = is_held and message_in(lane, entry)
  if message then
    take_out(lane, entry)
    put(message, 'o', get(message, 'o') or (lane .. entry))
    bury(id, flags, message, ARGV[at + 4], ARGV[at + 5], ARGV[at + 6])
  else
    lost[#lost + 1] = (at - 5) / 7
  end
end
return lost
