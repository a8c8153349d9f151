-- Forgets consumers that hold nothing and were not seen for long: the names that dead workers leave behind.
--
-- requires: queue
-- keys:     those of the queue
-- args:     milliseconds · limit
-- answers:  how many names were forgotten
local oldest, limit = tonumber(ARGV[5]), tonumber(ARGV[6])
local count = 0

local function sweep(lane)
  for _, consumer in ipairs(redis.pcall('XINFO', 'CONSUMERS', lane_key(lane), GROUP)) do
    local facts = {}
    for at = 1, #consumer, 2 do
      facts[consumer[at]] = consumer[at + 1]
    end
    if count < limit and facts['pending'] == 0 and facts['idle'] >= oldest then
      redis.call('XGROUP', 'DELCONSUMER', lane_key(lane), GROUP, facts['name'])
      count = count + 1
    end
  end
end

for _, lane in ipairs(lanes()) do
  sweep(lane)
end
return count
