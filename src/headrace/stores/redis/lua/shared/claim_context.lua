-- The names that limits.lua needs, in a claim from several streams. Their labels, the notices and the offset of the
-- clock are the last arguments.
local OFFSET, NOTICES, LABELS = tonumber(table.remove(ARGV)), table.remove(ARGV), {}
for stream = #ARGV[7], 1, -1 do
  LABELS[stream] = table.remove(ARGV)
end
local GROUP, META, LABEL = ARGV[1], KEYS[6], LABELS[1]

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
