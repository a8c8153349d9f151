-- What is counted without looking at messages.

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
    local first = redis.call('XRANGE', lane_key(lane), '(' .. (last or '0-0'), '+', 'COUNT', 1)[1]
    if first then
      local added = tonumber(string.match(first[1], '^%d+')) * 1000
      oldest = math.min(oldest or added, added)
    end
  end
  return oldest
end

-- How many messages are queued: in the lanes, but not held, and in lines.
local function waiting()
  local in_use, used = lanes()
  local count = 0
  if string.find(used, '%a') then
    local prefix = string.sub(META, 1, -5)
    count = redis.call('ZCARD', prefix .. 'lined') + redis.call('ZCARD', prefix .. 'parked')
  end
  for _, lane in ipairs(in_use) do
    local _, pending = group_of(lane)
    count = count + redis.call('XLEN', lane_key(lane)) - pending
  end
  return count
end
