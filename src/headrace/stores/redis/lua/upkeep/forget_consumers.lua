-- Forgets consumers that hold nothing and were not seen for long: the names that dead workers leave behind. A lane
-- that has become empty is not in use any more, so that claims need not read it.
--
-- requires: queue
-- keys:     those of the queue
-- args:     milliseconds · limit
-- answers:  how many names were forgotten
local oldest, limit = tonumber(ARGV[5]), tonumber(ARGV[6])
local count, used, is_dropped = 0, '', false

local function sweep(lane, idle)
  for _, consumer in ipairs(redis.pcall('XINFO', 'CONSUMERS', lane_key(lane), GROUP)) do
    local facts = {}
    for at = 1, #consumer, 2 do
      facts[consumer[at]] = consumer[at + 1]
    end
    if count < limit and facts['pending'] == 0 and facts['idle'] >= idle then
      redis.call('XGROUP', 'DELCONSUMER', lane_key(lane), GROUP, facts['name'])
      count = count + 1
    end
  end
end

for _, lane in ipairs(lanes()) do
  if lane == 4 then
    sweep(lane, oldest)
  elseif redis.call('XLEN', lane_key(lane)) > 0 then
    sweep(lane, oldest)
    used = used .. lane
  else
    sweep(lane, 0)
    is_dropped = true
  end
end
if is_dropped then
  redis.call('HDEL', META, 'lanes') -- a removal first: it is not refused when memory is short
  if used ~= '' then
    redis.call('HSET', META, 'lanes', used)
  end
end
return count
