-- Looks for held entries whose lease ran out, from where the last look ended. Changes nothing but the stamps:
-- when a worker last looked, and until when nothing is taken. After an outage, and after a restart of the server,
-- that is one lease, so that the living renew first.
--
-- requires: queue message place
-- keys:     those of the queue
-- args:     run id of the server, or empty · place of a lane, and entry to go on after · how many to find · the lease
--           of a queue that has none, in microseconds · bytes of bodies after which it stops: they will be moved ·
--           microseconds for which the last look of any worker is enough · 1: after an outage, or 0
-- answers:  now · lease in milliseconds · place of a lane, and entry to go on after; 0 when all were looked at, or
--           none had to be; -1 when the clock went back and leases must be rebased ·
--           {lane, entry, consumer, message without its body, the report of its run} for each that was
--           found. It may find none and still say where to go on: a call looks at a section of a lane.
local run, at, after = ARGV[5], tonumber(ARGV[6]), ARGV[7]
local limit, bytes, every = tonumber(ARGV[8]), tonumber(ARGV[10]), tonumber(ARGV[11])
local after_outage = ARGV[12] == '1'
local now = clock()
local meta = redis.call('HMGET', META, 'lease', 'run', 'patient', 'longer', 'until', 'looked')
local lease = tonumber(meta[1] or '') or tonumber(ARGV[9])
local longer, last = tonumber(meta[4] or 0) or 0, tonumber(meta[5] or 0) or 0
if now < last and last <= now + longer then
  lease = math.max(lease, longer)
end
local looked = tonumber(meta[6] or 0) or 0
if looked > now + 1000000 then
  return { now, math.floor(lease / 1000), -1, '', {} }
end
-- Never beyond one lease, also when the clock went back.
local patient = math.min(tonumber(meta[3] or 0) or 0, now + lease)
if after_outage or (run ~= '' and meta[2] and meta[2] ~= run) then
  patient = now + lease
end
local begins = at == 1 and after == ''
if begins and not after_outage and looked > now - every then
  return { now, 0, 0, '', {} }
end
-- A removal first: it is not refused when memory is short.
redis.call('HDEL', META, 'patient', 'looked')
redis.call('HSET', META, 'looked', digits(now), 'patient', digits(patient))
if run ~= '' then
  redis.call('HSET', META, 'run', run)
end
if now < patient then
  return { now, 0, 0, '', {} }
end

local found, in_order = {}, lanes()
local lane = in_order[at]
local function note(entry, consumer)
  local message = message_in(lane, entry) or {}
  local report = report_of(get(message, 'i') or '', lane .. entry) or ''
  bytes = bytes - #(get(message, 'm') or '') - #(get(message, 's') or '') - #report
  put(message, 'm', nil)
  found[#found + 1] = { lane, entry, consumer, message, report }
end

-- About so many held entries are a section: the server needs 0.16 µs for each.
local SECTION = 10000

-- Up to which entry the server may look in this call. Entries are numbered by the time at which they were queued, so a
-- section is a span of time.
local function section_end()
  local held = redis.pcall('XPENDING', lane_key(lane), GROUP)
  local count = tonumber(held[1]) or 0
  if count <= SECTION then
    return '+'
  end
  local first, last = tonumber(string.match(held[2], '^%d+')), tonumber(string.match(held[3], '^%d+'))
  local from = math.max(first, tonumber(string.match(after, '^%d+') or '0'))
  local to = from + math.max(1, math.ceil((last - first) * SECTION / count))
  return to < last and digits(to) .. '-18446744073709551615' or '+'
end

local idle = math.ceil(lease / 1000)
while lane do
  local start, stop = after == '' and '-' or '(' .. after, section_end()
  -- The server walks over those that are fine: it does so far faster than a script.
  local rows = redis.pcall('XPENDING', lane_key(lane), GROUP, 'IDLE', idle, start, stop, limit - #found)
  for _, row in ipairs(rows) do
    after = row[1]
    note(row[1], row[2])
    if #found == limit or bytes <= 0 then
      return { now, math.floor(lease / 1000), at, after, found }
    end
  end
  if stop ~= '+' then
    return { now, math.floor(lease / 1000), at, stop, found }
  end
  at, after = at + 1, ''
  lane = in_order[at]
end
return { now, math.floor(lease / 1000), 0, '', found }
