-- Lists one part of a queue in order.
--
-- requires: queue message place expiry counting describing
-- keys:     those of the queue
-- args:     part: S scheduled, R retrying, K parked, D dead (the latest first), or Q queued, X running with a lane's
--           number behind · where to go on, as answered before, or empty · limit · bytes of bodies after
--           which it stops
-- answers:  where to go on, empty: the part is at its end · rows (see shared/describing.lua)
local part, after, limit, bytes = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local rows = {}

-- Adds a row and says whether there is room for another.
local function add(id, place, message)
  rows[#rows + 1] = row_of(id, place, message)
  bytes = bytes - #(get(message, 'm') or '') - #(get(message, 's') or '')
  return bytes > 0
end

-- Where to go on in a sorted set: '<score> <id>' of the last that was listed, which may be gone by now.
local function rank_after(key, latest_first)
  if after == '' then
    return 0
  end
  local score, id = string.match(after, '^(%S+) (.*)$')
  local rank = redis.call(latest_first and 'ZREVRANK' or 'ZRANK', key, id)
  if rank then
    return rank + 1
  elseif latest_first then
    return redis.call('ZCOUNT', key, '(' .. score, '+inf')
  end
  return redis.call('ZCOUNT', key, '-inf', '(' .. score)
end

local function list_agenda(key, latest_first)
  local rank = rank_after(key, latest_first)
  local command = latest_first and 'ZREVRANGE' or 'ZRANGE'
  local found = redis.call(command, key, rank, rank + limit - 1, 'WITHSCORES')
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

local function list_queued(lane)
  local start = after ~= '' and after or group_of(lane) or '0-0'
  local found = redis.call('XRANGE', lane_key(lane), '(' .. start, '+', 'COUNT', limit)
  for _, row in ipairs(found) do
    after = row[1]
    -- It may have been claimed since the page before.
    if not add(id_of(lane, row[1], row[2]), lane .. row[1], row[2]) then
      return true
    end
  end
  return #found == limit
end

local function list_running(lane)
  local start = after == '' and '-' or '(' .. after
  local found = redis.pcall('XPENDING', lane_key(lane), GROUP, start, '+', limit)
  for _, row in ipairs(found) do
    after = row[1]
    local message = message_in(lane, row[1])
    if message and not add(id_of(lane, row[1], message), lane .. row[1], message) then
      return true
    end
  end
  return #found == limit
end

local kind, lane = string.sub(part, 1, 1), tonumber(string.sub(part, 2))
local more
if kind == 'Q' then
  more = list_queued(lane)
elseif kind == 'X' then
  more = list_running(lane)
elseif kind == 'D' then
  more = list_agenda(DEAD, true)
elseif kind ~= 'K' or PARKED then
  more = list_agenda(agenda_of(kind), false)
end
return { more and after or '', rows }
