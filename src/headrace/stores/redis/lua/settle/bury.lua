-- Settles what goes to the dead letters. Acknowledges first, so that it passes when the server has no memory
-- left.
--
-- requires: queue message place queueing ordering ending
-- keys:     those of the queue
-- args:     for each message: id · lane · entry · consumer · state · reason · failure. An entry that has no id, or none
--           that can be read, is buried by the id that it is called by here.
-- answers:  the indices, from 0, of those that were lost
local lost = {}

-- Whether the consumer holds an entry that `:ids` does not know by this id: another program wrote it.
local function is_stray(lane, entry, consumer)
  local row = holder(lane, entry)
  return row and row[2] == consumer
end

-- Makes a message of such an entry: all that it holds is its body, unless it has one.
local function adopt(id, lane, entry, message)
  local own = get(message, 'i')
  local place, flags = place_of(own or '')
  if place == lane .. entry then
    redis.call('HDEL', IDS, own)
  end
  local adopted = { 'i', id, 't', get(message, 't') or '', 'm', get(message, 'm') or cmsgpack.pack(message) }
  put(adopted, 'u', get(message, 'u'))
  return adopted, flags
end

-- Where one of these keys is of another type it ends here, before anything is taken out.
redis.call('HLEN', MESSAGES)
redis.call('ZCARD', DEAD)
for at = 5, #ARGV, 7 do
  local id, lane, entry = ARGV[at], tonumber(ARGV[at + 1]) or HELD, ARGV[at + 2]
  local is_held, flags = held(id, lane, entry, ARGV[at + 3])
  local message = (is_held or is_stray(lane, entry, ARGV[at + 3])) and message_in(lane, entry)
  if message then
    if not is_held then
      id = place_of(id) and 'unreadable-' .. lane .. entry or id
      message, flags = adopt(id, lane, entry, message)
    end
    take_out(lane, entry)
    put(message, 'o', get(message, 'o') or (lane .. entry))
    bury(id, flags, message, ARGV[at + 4], ARGV[at + 5], ARGV[at + 6])
  else
    lost[#lost + 1] = (at - 5) / 7
  end
end
return lost
