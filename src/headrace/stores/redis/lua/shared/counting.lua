-- What is counted without looking at messages.

-- How many entries a lane has. That of what is handed out is made anew (healing.lua), and has none until then.
local function length_of(lane)
  local length = redis.pcall('XLEN', lane_key(lane))
  if type(length) == 'table' then
    length = lane == HELD and 0 or redis.call('XLEN', lane_key(lane))
  end
  return length
end

-- The group of a lane: the entry it handed out last, and how many are held; nil when it does not exist.
local function group_of(lane)
  local groups = redis.pcall('XINFO', 'GROUPS', lane_key(lane))
  for _, group in ipairs(groups) do
    local facts = {}
    for at = 1, #group, 2 do
      facts[group[at]] = group[at + 1]
    end
    if facts['name'] == GROUP then
      return facts['last-delivered-id'], facts['pending']
    end
  end
  return nil, 0
end

-- When the longest-waiting message of the lanes became ready; nil: none waits.
local function oldest_in_lanes()
  local oldest
  for _, lane in ipairs(lanes()) do
    local last = group_of(lane)
    local first = length_of(lane) > 0 and redis.call('XRANGE', lane_key(lane), '(' .. (last or '0-0'), '+', 'COUNT', 1)[1]
    if first then
      local added = tonumber(string.match(first[1], '^%d+')) * 1000
      oldest = math.min(oldest or added, added)
    end
  end
  return oldest
end

-- How many wait in lines (`lined`) or for their key (`parked`). What another program has written there instead counts
-- nothing until a worker removes it (healing.lua).
local function waiting_in(name)
  local count = redis.pcall('ZCARD', string.sub(META, 1, -5) .. name)
  return type(count) == 'number' and count or 0
end

-- How many messages are queued: in the lanes, but not held, and in lines.
local function waiting()
  local in_use, used = lanes()
  local count = 0
  if string.find(used, '%a') then
    count = waiting_in('lined') + waiting_in('parked')
  end
  for _, lane in ipairs(in_use) do
    local _, pending = group_of(lane)
    count = count + length_of(lane) - pending
  end
  return count
end
