-- Lists one part of a queue, the latest first; of the running ones lane by lane.
--
-- requires: queue message place expiry counting describing
-- keys:     those of the queue
-- args:     part: X running, Q queued, R retrying, S scheduled, K parked, L in lines, D dead · where to go on, as answered before,
--           or empty · limit · bytes of bodies after which it stops · of X and Q: only what was claimed or queued
--           after this millisecond, or 0
-- answers:  where to go on, empty: the part is at its end · rows (see shared/messages/describing.lua) · the millisecond now
local part, after, limit, bytes = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local since = tonumber(ARGV[9])
local now = math.floor((clock() - OFFSET) / 1000)
local rows = {}

-- Adds a row, and answers whether there is room for another.
local function add(id, place, message)
  rows[#rows + 1] = row_of(id, place, message)
  bytes = bytes - #(get(message, 'm') or '') - #(get(message, 's') or '')
  return bytes > 0
end

-- Where to go on in a sorted set: '<score> <id>' of the last that was listed, which may be gone by now.
local function rank_after(key)
  if after == '' then
    return 0
  end
  local score, id = string.match(after, '^(%S+) (.*)$')
  return (redis.call('ZREVRANK', key, id) or redis.call('ZCOUNT', key, '(' .. score, '+inf') - 1) + 1
end

local function list_agenda(key)
  local rank = rank_after(key)
  local found = redis.call('ZREVRANGE', key, rank, rank + limit - 1, 'WITHSCORES')
  for at = 1, #found, 2 do
    local id = found[at]
    local packed = redis.call('HGET', MESSAGES, id)
    after = found[at + 1] .. ' ' .. id
    if packed and not add(id, part, unpacked(id, packed)) then
      return true
    end
  end
  return #found == limit * 2
end

-- The entry after which those of a lane are wanted that are not claimed. Its id begins with the millisecond.
local function before_queued(lane)
  local claimed = group_of(lane) or '0-0'
  local queued = string.format('%.0f', since) .. '-18446744073709551615'
  return since > 0 and tonumber(string.match(claimed, '^%d+')) <= since and queued or claimed
end

local function is_newer(one, other)
  for at = 1, 2 do
    if one[at] ~= other[at] then
      return one[at] > other[at]
    end
  end
  return tostring(one.lane) < tostring(other.lane)
end

-- Entries of all lanes by their ids; of two that have the same one that of the lower lane comes first.
local function list_queued()
  local entry, of = string.match(after, '^(%S+) (%d)$')
  local found = {}
  for _, lane in ipairs(lanes()) do
    local is_after = entry and lane ~= HELD and lane > tonumber(of)
    local newest = entry and (is_after and entry or '(' .. entry) or '+'
    local oldest = '(' .. before_queued(lane)
    local rows = length_of(lane) > 0 and redis.call('XREVRANGE', lane_key(lane), newest, oldest, 'COUNT', limit) or {}
    for _, row in ipairs(rows) do
      local millisecond, number = string.match(row[1], '^(%d+)-(%d+)$')
      local message = lane == HELD and message_in(lane, row[1]) or row[2]
      found[#found + 1] = { tonumber(millisecond), tonumber(number), lane = lane, id = row[1], message = message }
    end
  end
  table.sort(found, is_newer)
  for at = 1, math.min(limit, #found) do
    local row = found[at]
    after = row.id .. ' ' .. row.lane
    -- It may have been claimed since the page before.
    if not add(id_of(row.lane, row.id, row.message), row.lane .. row.id, row.message) then
      return true
    end
  end
  return #found >= limit
end

-- See renew.lua for what the count holds.
local function was_claimed_since(row)
  return (row[4] > 1000000000 and row[4] or now - row[3]) > since
end

local function list_running()
  local of, entry = string.match(after, '^([%dx]) (%S+)$')
  local left, reached = limit, not of
  for _, lane in ipairs(lanes()) do
    local start = tostring(lane) == of and '(' .. entry or '-'
    reached = reached or tostring(lane) == of
    local found = reached and left > 0 and redis.pcall('XPENDING', lane_key(lane), GROUP, start, '+', left) or {}
    left = left - #found
    for _, row in ipairs(found) do
      after = lane .. ' ' .. row[1]
      local message = was_claimed_since(row) and message_in(lane, row[1])
      if message and not add(id_of(lane, row[1], message), lane .. row[1], message) then
        return true
      end
    end
  end
  return left == 0
end

local more
if part == 'Q' then
  more = list_queued()
elseif part == 'X' then
  more = list_running()
else
  local key = agenda_of(part)
  -- What waits in lines and for keys is put there again where another program has written something else (healing.lua).
  local is_damaged = (part == 'K' or part == 'L') and type(redis.pcall('ZCARD', key)) == 'table'
  more = not is_damaged and list_agenda(key)
end
return { more and after or '', rows, digits(now) }
