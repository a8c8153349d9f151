-- Looks for held entries whose lease ran out, from where the last look ended. Changes nothing but the stamp
-- of the server's run: after a restart nobody is robbed for one lease, so that the living renew first.
--
-- requires: queue message place
-- keys:     those of the queue
-- args:     run id of the server, or empty · place of a lane, and entry to go on after · how many to find ·
--           how many to look at · the lease of a queue that has none, in microseconds · bytes of bodies after
--           which it stops: they will be moved
-- answers:  now · lease in milliseconds · place of a lane, and entry to go on after, 0 when all were looked at ·
--           {lane, entry, consumer, message without its body, what its run said of itself} for each that was
--           found
local run, at, after = ARGV[5], tonumber(ARGV[6]), ARGV[7]
local limit, budget, bytes = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[11])
if redis.call('HLEN', IDS) == 0 then
  return { 0, 0, 0, '', {} }
end

local now = clock()
local meta = redis.call('HMGET', META, 'lease', 'run', 'patient', 'longer', 'until')
local lease = tonumber(meta[1] or ARGV[10])
if now < tonumber(meta[5] or 0) then
  lease = math.max(lease, tonumber(meta[4]))
end
local patient = tonumber(meta[3] or 0)
if run ~= '' and meta[2] ~= run then
  if meta[2] then
    patient = now + lease
  end
  redis.call('HDEL', META, 'run') -- whoever removes first is not refused when memory is short
  redis.call('HSET', META, 'run', run, 'patient', digits(patient))
end
if now < patient then
  return { 0, 0, 0, '', {} }
end

local found, order = {}, lanes()
local lane = order[at]
local function note(entry, consumer)
  local message = message_in(lane, entry) or {}
  local said = said_of(get(message, 'i') or '', lane .. entry) or ''
  bytes = bytes - #(get(message, 'm') or '') - #(get(message, 's') or '') - #said
  put(message, 'm', nil)
  found[#found + 1] = { lane, entry, consumer, message, said }
end

while lane and budget > 0 do
  local start = after == '' and '-' or '(' .. after
  local rows = redis.pcall('XPENDING', lane_key(lane), GROUP, start, '+', budget)
  for _, row in ipairs(rows) do
    after, budget = row[1], budget - 1
    if row[3] * 1000 >= lease then
      note(row[1], row[2])
      if #found == limit or bytes <= 0 then
        return { now, math.floor(lease / 1000), at, after, found }
      end
    end
  end
  if budget > 0 then
    at, after = at + 1, ''
    lane = order[at]
  end
end
return { now, math.floor(lease / 1000), lane and at or 0, after, found }
