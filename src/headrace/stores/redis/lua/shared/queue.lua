-- The keys and the first four arguments of every script about one stream, by name (made in keys.py), and the
-- store's clock. KEYS[1] to KEYS[5] are the lanes; a lane's number is its index. Those of child work are 0 (suspect)
-- and 6 to 9: a number is one digit. HELD is the lane of messages with constraints that are handed out.
local IDS, MESSAGES, DUE, RETRY, DEAD = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local CANCEL, WAITERS, META = KEYS[11], KEYS[12], KEYS[13]
local END_RECORD, UNIQUE, PRODUCER = KEYS[14], KEYS[15], KEYS[16] -- prefixes
local PROGRESS, SCHEDULES = KEYS[17], KEYS[18]
local PARKED, LINES, DEFERRED = KEYS[19], KEYS[20], KEYS[25] -- nil of a queue
local OFFSET, GROUP, NOTICES, LABEL = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local SUSPECT, RETURNED, HIGH, HELD = 1, 2, 3, 'x'

-- Microseconds. The offset is 0 but in tests that move time.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2] + OFFSET
end

local function lane_key(lane)
  if lane == HELD then
    return string.sub(META, 1, -5) .. 's:held'
  elseif lane > 5 then
    return KEYS[lane - 4] .. '/child'
  end
  return lane > 0 and KEYS[lane] or KEYS[SUSPECT] .. '/child'
end

local function child_lane_of(lane)
  return lane == SUSPECT and 0 or lane + 4
end

-- The lanes that are in use: that of normal priority, and those in which something was. (Other letters are those of
-- lines, see limits.lua.)
local function lanes()
  local used, found = redis.call('HGET', META, 'lanes') or '', {}
  for lane in string.gmatch('1234506789x', '.') do
    if lane == '4' or string.find(used, lane, 1, true) then
      found[#found + 1] = tonumber(lane) or lane
    end
  end
  return found, used
end

-- The text under a key; nil: there is none, or another program has written something else there.
local function text_at(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    return not string.find(value.err, 'WRONGTYPE', 1, true) and redis.call('GET', key) or nil
  end
  return value or nil
end

-- A time as text: `..` would cut it to 14 digits.
local function digits(number)
  return string.format('%.0f', number)
end
