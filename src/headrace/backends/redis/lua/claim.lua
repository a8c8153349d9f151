-- Hands out queued messages, lane by lane over all sources. Lua converts every reply, which costs as much as
-- the reading itself; so it takes at most `portion` from one lane of one source, and when there is more
-- it says where to go on with a plain command.
--
-- keys:    for each source its five lanes and `:meta`, the source whose turn it is first
-- args:    group · consumer · limit · suspects · portion · for each source q, or g: a group of a topic · the lanes
--          after suspect, in order
-- answers: seconds and microseconds of the clock · the paused sources, from 1 ·
--          {source, lane, entries} for each read · {source, count} for each to go on with · their lane, or 0
local group, consumer = ARGV[1], ARGV[2]
local left, suspects, portion = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local sources = #KEYS / 6
local reads, paused, open = {}, {}, {}

for source = 1, sources do
  if redis.call('HGET', KEYS[source * 6], 'paused') == '1' then
    paused[#paused + 1] = source
  else
    open[#open + 1] = source
  end
end

local function read(source, lane, count)
  local key = KEYS[(source - 1) * 6 + lane]
  local reply = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', key, '>')
  if reply and reply.err then
    -- No such group, or no such stream: they begin at the beginning. A topic's group may have been removed.
    if string.sub(ARGV[6], source, source) == 'g' and redis.call('HEXISTS', KEYS[source * 6], 'position') == 0 then
      return 0
    end
    redis.call('XGROUP', 'CREATE', key, group, '0', 'MKSTREAM')
    reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', key, '>')
  end
  if not reply then
    return 0
  end
  local entries = reply[1][2]
  reads[#reads + 1] = { source, lane, entries }
  left = left - #entries
  return #entries
end

local function read_suspects(limit)
  for _, source in ipairs(open) do
    if limit > 0 then
      limit = limit - read(source, 1, limit)
    end
  end
end

-- Reads one lane; answers what is to be read further, if anything is.
local function read_lane(lane)
  local further = {}
  for _, source in ipairs(open) do
    local count = math.min(left, portion)
    if count > 0 and read(source, lane, count) == portion then
      further[#further + 1] = { source, 0 }
    end
  end
  return further
end

local function shares(further)
  for index, share in ipairs(further) do
    share[2] = math.ceil(left / (#further - index + 1))
    left = left - share[2]
  end
  return further
end

local time = redis.call('TIME')
read_suspects(math.min(suspects, left))
for at = 7, #ARGV do
  local lane = tonumber(ARGV[at])
  if left > 0 then
    local further = read_lane(lane)
    if left > 0 and #further > 0 then
      return { time[1], time[2], paused, reads, shares(further), lane }
    end
  end
end
return { time[1], time[2], paused, reads, {}, 0 }
