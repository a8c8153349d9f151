-- Gives the next batch of the outbox to a relay, which holds it for a while: the batch under way, or a new one.
--
-- requires: queue outbox
-- keys:     those of the queue
-- args:     relay · how many at most · bytes after which it takes no more · microseconds of the hold · the epoch, if a
--           new one begins
-- answers:  nothing, or: epoch · number · for each entry: how long it has been there · content
local relay, limit, room, hold = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local length, now = redis.call('XLEN', OUTBOX), clock()
if length == 0 then
  return {}
end
local epoch, number, count, held_until, holder = read_batch()
if not epoch then
  epoch, number, count = ARGV[9], 0, 0
end
-- A hold that ends later than it could is from before the clock was set back.
if count > 0 and holder ~= relay and now < held_until and held_until <= now + hold then
  return {}
end

local entries = {}
if count > 0 then
  entries = redis.call('XRANGE', OUTBOX, '-', '+', 'COUNT', count)
else
  number = number + 1
  local after = '-'
  while count < math.min(length, limit) do
    local entry = redis.call('XRANGE', OUTBOX, after, '+', 'COUNT', 1)[1] -- one by one: each may be large
    local size = #(entry[2][4] or '')
    if count > 0 and size > room then
      break
    end
    count, room, after = count + 1, room - size, '(' .. entry[1]
    entries[count] = entry
  end
end
write_batch(epoch, number, count, now + hold, relay)

local answer = { epoch, number }
for _, entry in ipairs(entries) do
  local at = tonumber(entry[2][2])
  answer[#answer + 1] = at and now - at or 0
  answer[#answer + 1] = entry[2][4] or ''
end
return answer
