-- Counts promotions: a worker that finds nothing due then knows whether another one was faster.
local function promotions()
  return tonumber(redis.call('HGET', META, 'promotions') or '') or 0
end

local function count_promotion()
  redis.call('HSET', META, 'promotions', digits(promotions() + 1))
end
