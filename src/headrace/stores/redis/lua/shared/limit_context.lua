-- The names that limits.lua needs, in a script about limits. Arguments of every such script: offset of the clock ·
-- channel of notices · prefix of a queue's keys and its label, on a cluster, else empty.
local OFFSET, NOTICES, META, LABEL = tonumber(ARGV[1]), ARGV[2], ARGV[3] .. 'meta', ARGV[4]

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
