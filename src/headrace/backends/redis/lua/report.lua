-- Keeps how far messages have come that are still held.
--
-- requires: queue place
-- keys:     those of the queue
-- args:     for each: id · lane · entry · consumer · fraction · text
local now = digits(clock())
for at = 5, #ARGV, 6 do
  local id, lane, entry, consumer, fraction, text = unpack(ARGV, at, at + 5)
  local is_held, flags = held(id, tonumber(lane), entry, consumer)
  if is_held then
    local place = lane .. entry
    redis.call('HSET', PROGRESS, id, table.concat({ place, now, fraction, text }, ' '))
    if not string.find(flags, 'p', 1, true) then
      set_place(id, place, flags .. 'p')
    end
  end
end
return 1
