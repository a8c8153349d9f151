-- What claims have in common: the arguments and answers are those of claim.lua.
local group, consumer = ARGV[1], ARGV[2]
local left, suspects = tonumber(ARGV[3]), tonumber(ARGV[4])
local room, portion = tonumber(ARGV[5]), tonumber(ARGV[6])
local streams = #ARGV[7]
local children, children_first = tonumber(ARGV[8]), ARGV[9] == '1'
local reads, paused, open, large = {}, {}, {}, {}
local used = {} -- lanes of streams, beside that of normal priority
local has_lines = false -- see limits.lua

-- Bytes of a message that is small (see shared/messages/queueing.lua). How many are read here, few at a time, where there
-- may be large ones, and how many bytes.
local SMALL, CAREFUL, HERE = 4096, 64, 262144
local here = math.min(room, HERE)

for stream = 1, streams do
  local meta = redis.pcall('HMGET', KEYS[stream * 6], 'paused', 'large', 'lanes')
  if meta.err then
    -- Another program has written something else there: the other streams are read.
    local is_damaged = string.find(meta.err, 'WRONGTYPE', 1, true)
    meta = is_damaged and { '1' } or redis.call('HMGET', KEYS[stream * 6], 'paused', 'large', 'lanes')
  end
  if meta[1] == '1' then
    paused[#paused + 1] = stream
  else
    open[#open + 1] = stream
    large[stream] = meta[2] or nil
    if meta[3] then
      used[#used + 1] = { stream, meta[3] }
      has_lines = has_lines or string.find(meta[3], '[a-j]')
    end
  end
end

-- Lanes are numbered as in shared/queue.lua.
local function is_child(lane)
  return lane == 0 or lane > 5
end

local function key_of(stream, lane)
  local first = (stream - 1) * 6
  if not is_child(lane) then
    return KEYS[first + lane]
  end
  return KEYS[first + (lane == 0 and 1 or lane - 4)] .. '/child'
end

-- How many more may be taken from a lane of that kind.
local function allowed(lane)
  return is_child(lane) and math.min(left, children) or left
end

-- What no message of this lane exceeds.
local function bound_of(stream, lane)
  local largest = 0
  if large[stream] then
    for class in string.gmatch(large[stream], 'l' .. lane .. 'c(%d+):') do
      largest = math.max(largest, tonumber(class))
    end
  end
  return SMALL * 4 ^ largest
end

local function is_before(one, other)
  local time, number = string.match(one, '^(%d+)-(%d+)$')
  local other_time, other_number = string.match(other, '^(%d+)-(%d+)$')
  time, other_time = tonumber(time), tonumber(other_time)
  return time < other_time or (time == other_time and tonumber(number) < tonumber(other_number))
end

-- Forgets the sizes of entries that are handed out by now.
local function pass(stream, lane, last)
  local known = large[stream]
  local rest = known and string.gsub(known, '(l' .. lane .. 'c%d+:)(%S+) ', function(place, entry)
    return is_before(last, entry) and place .. entry .. ' ' or ''
  end)
  if rest ~= known then
    large[stream] = rest ~= '' and rest or nil
    redis.call('HDEL', KEYS[stream * 6], 'large') -- a removal first: it is not refused when memory is short
    if rest ~= '' then
      redis.call('HSET', KEYS[stream * 6], 'large', rest)
    end
  end
end

local function ask(stream, lane, count)
  local key = key_of(stream, lane)
  local reply = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', key, '>')
  if reply and reply.err then
    if string.find(reply.err, 'WRONGTYPE', 1, true) then
      return {} -- another program has written something else there: the others are read
    end
    -- No such group, or no such stream: they begin at the beginning. A topic's group may have been removed.
    if string.sub(ARGV[7], stream, stream) == 'g' and redis.call('HEXISTS', KEYS[stream * 6], 'position') == 0 then
      return {}
    end
    redis.call('XGROUP', 'CREATE', key, group, '0', 'MKSTREAM')
    reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', key, '>')
  end
  return reply and reply[1][2] or {}
end

local function spend(entries, lane)
  left = left - #entries
  children = is_child(lane) and children - #entries or children
  for _, entry in ipairs(entries) do
    for at = 6, #entry[2], 2 do
      room = room - #entry[2][at]
      here = here - #entry[2][at]
    end
  end
end

-- How many may be read at once. One that may be too large for what is left is still read while that is plenty.
local function fitting(stream, lane)
  local count = math.floor(here / bound_of(stream, lane))
  return count == 0 and here > HERE / 2 and room > ARGV[5] / 2 and 1 or count
end

-- Reads at most so many from a lane, and says whether there may be more.
local function read(stream, lane, limit)
  while limit > 0 do
    local count = math.min(limit, fitting(stream, lane))
    if count <= 0 then
      return true
    end
    local entries = ask(stream, lane, count)
    if #entries > 0 then
      reads[#reads + 1] = { stream, lane, entries }
      spend(entries, lane)
      pass(stream, lane, entries[#entries][1])
    end
    if #entries < count then
      return false
    end
    limit = limit - count
  end
  return true
end

-- A lane and the lane of its child work. They take turns at being first.
local function each_kind(lane)
  local child = lane == 1 and 0 or lane + 4
  return children_first and { child, lane } or { lane, child }
end

local function streams_of(lane)
  if lane == 4 then
    return open
  end
  local found = {}
  for _, each in ipairs(used) do
    if string.find(each[2], lane, 1, true) then
      found[#found + 1] = each[1]
    end
  end
  return found
end

local function read_suspects(limit)
  local before = left
  for _, lane in ipairs(each_kind(1)) do
    for _, stream in ipairs(streams_of(lane)) do
      read(stream, lane, math.min(limit - before + left, allowed(lane)))
    end
  end
end

-- How many a stream is asked for in one lane: few where they cost a look each.
local function most_of(stream, lane)
  return bound_of(stream, lane) * portion > HERE and math.max(portion, CAREFUL) or portion
end

-- Reads one lane; answers what is to be read further, if anything is.
local function read_lane(lane)
  local further = {}
  for _, stream in ipairs(streams_of(lane)) do
    local count = math.min(allowed(lane), most_of(stream, lane))
    if count > 0 and read(stream, lane, count) then
      further[#further + 1] = { stream, 0, 0 }
    end
  end
  return further
end

-- Shares out what is left, as far as it is worth a command.
local function shares(further, lane)
  local worthwhile = {}
  for index, share in ipairs(further) do
    local others = #further - index + 1
    local bound = bound_of(share[1], lane)
    local fits = math.floor(room / others / bound)
    if fits >= portion or fits * bound >= HERE then
      share[2], share[3] = math.min(math.ceil(allowed(lane) / others), fits), bound
      left, room = left - share[2], room - share[2] * bound
      children = is_child(lane) and children - share[2] or children
      worthwhile[#worthwhile + 1] = share
    end
  end
  return worthwhile
end

-- Leaves the consumer's name where nothing was read (see shared/messages/queueing.lua), as a token that no other claim has. A
-- token that is there stays: as long as it is the same, nothing was queued since.
local function wait()
  local found, tokens, time = {}, {}, redis.call('TIME')
  for _, each in ipairs(reads) do
    found[each[1]] = true
  end
  for _, stream in ipairs(open) do
    if not found[stream] then
      local key = string.sub(KEYS[stream * 6], 1, -5) .. 'awaited'
      local token = redis.call('GET', key) or consumer .. ' ' .. time[1] .. '.' .. time[2]
      redis.call('SET', key, token, 'PX', ARGV[10])
      tokens[#tokens + 1] = { stream, token }
    end
  end
  return tokens
end

local function answer(further, lane)
  local tokens = ARGV[10] ~= '0' and wait() or {}
  local time = #reads > 0 and redis.call('TIME') or { '', '' }
  return { time[1], time[2], paused, used, reads, further, lane, tokens, 0 }
end
