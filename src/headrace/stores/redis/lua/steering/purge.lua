-- Ends queued, scheduled and retrying messages as cancelled, or as expired where they are.
--
-- requires: queue message place queueing counting ordering ending expiry expiring healing limits lines
-- keys:     those of the queue
-- args:     microseconds for which end records stay · limit · bytes after which it stops · end records that purges
--           leave at most within that time; the other messages leave one if a caller waits for them
-- answers:  how many; 0: nothing is left
local ttl, limit, bytes = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local count, largest = 0, bytes
local now = clock()

-- How many end records purges left, since when.
local left, since = string.match(redis.call('HGET', META, 'purged') or '', '^(%d+) (%d+)$')
left, since = tonumber(left) or 0, tonumber(since) or now
if since + ttl <= now or since > now then
  left, since = 0, now
end
local most = tonumber(ARGV[8]) - left
local recorded = 0

local function purge(id, message)
  local _, flags = place_of(id)
  local kept = recorded < most or string.find(flags, 'w', 1, true)
  recorded = recorded + (kept and 1 or 0)
  finish_waiting(id, flags, message, kept and ttl or 0)
  count = count + 1
  local size = #(get(message, 'm') or '')
  largest = math.max(count == 1 and 1 or largest, size)
  bytes = bytes - size
end

local function purge_lane(lane)
  local after = group_of(lane) or '0-0'
  while count < limit and bytes > 0 do
    local fit = math.min(limit - count, 10, math.max(1, math.floor(bytes / largest)))
    local rows = redis.call('XRANGE', lane_key(lane), '(' .. after, '+', 'COUNT', fit)
    if #rows == 0 then
      return
    end
    for _, row in ipairs(rows) do
      redis.call('XDEL', lane_key(lane), row[1])
      purge(id_of(lane, row[1], row[2]), row[2])
    end
  end
end

local function purge_agenda(key, place)
  while count < limit and bytes > 0 do
    local id = redis.call('ZRANGE', key, 0, 0)[1]
    if not id then
      return
    end
    local packed = redis.call('HGET', MESSAGES, id)
    unpark(id, place)
    purge(id, packed and unpacked(id, packed) or { 'm', '' })
  end
end

-- The parked ones first: what ends lets the next of its key in.
purge_agenda(agenda_of('K'), 'K')
purge_agenda(agenda_of('L'), 'L')
for _, lane in ipairs(lanes()) do
  if lane ~= HELD then
    purge_lane(lane)
  end
end
purge_agenda(DUE, 'S')
purge_agenda(RETRY, 'R')
if recorded > 0 and ttl > 0 then
  redis.call('HSET', META, 'purged', digits(left + recorded) .. ' ' .. digits(since))
end

-- What a group has passed over is drawn next; what runs is not handled again after that.
if count == 0 and DEFERRED and redis.call('EXISTS', DEFERRED) == 1 then
  redis.call('HDEL', META, 'again')
  local deferred = redis.call('HGETALL', DEFERRED)
  for at = 2, #deferred, 2 do
    deferred[at] = string.sub(deferred[at], 1, -2) .. '1'
  end
  redis.call('HSET', DEFERRED, unpack(deferred))
end
return count
