-- Reads the clock and texts, in a script that has no queue.lua. OFFSET is that of the clock.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2] + OFFSET
end

local function digits(number)
  return string.format('%.0f', number)
end

local function text_at(key)
  local value = redis.pcall('GET', key)
  return type(value) == 'string' and value or nil
end
