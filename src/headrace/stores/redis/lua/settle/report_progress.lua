-- Keeps how far messages have come that are still held, and what they wrote.
--
-- requires: queue place
-- keys:     those of the queue
-- args:     for each: id · lane · entry · consumer · fraction, or - · text · log
local now = digits(clock())
for at = 5, #ARGV, 7 do
  local id, lane, entry, consumer, fraction, text, log = unpack(ARGV, at, at + 6)
  local is_held, flags = held(id, tonumber(lane) or HELD, entry, consumer)
  if is_held then
    local place = lane .. entry
    redis.call('HSET', PROGRESS, id, table.concat({ place, now, fraction, #text, text .. log }, ' '))
    if not string.find(flags, 'p', 1, true) then
      set_place(id, place, flags .. 'p')
    end
  end
end
return 1
