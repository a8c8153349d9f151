-- What a topic and a group have to count beside what a queue has.

local function sooner(one, other)
  return one and other and math.min(one, other) or one or other
end

-- When the first event of the lanes was written that no handler has begun with; nil: there is none. One that
-- was handed out before has an origin.
local function untouched_in_lanes()
  local last = group_of(4)
  for _, row in ipairs(redis.call('XRANGE', KEYS[4], '(' .. (last or '0-0'), '+', 'COUNT', 10)) do
    local has_origin, written = false, nil
    for at = 1, #row[2], 2 do
      has_origin = has_origin or row[2][at] == 'o'
      written = row[2][at] == 'a' and tonumber(row[2][at + 1]) or written
    end
    if not has_origin then
      return written or number_of(row[1]) * 1000
    end
  end
end

-- How many events of deferred keys were passed over before the position, as far as they are left.
local function passed_over(position, low)
  local passed = 0
  local deferred = redis.call('HGETALL', DEFERRED)
  for at = 2, #deferred, 2 do
    passed = passed + (tonumber(string.match(deferred[at], '^%d+ (%-?%d+)') or '') or 0)
  end
  local event, first = event_from(low)
  local left = event and position - first + 1 or 0
  return math.max(0, math.min(passed, left)), left > 0 and written_at(event) or nil
end

local function add_behind_group(counts)
  local meta = redis.call('HMGET', META, 'position', 'seen', 'ordered', 'low')
  local position = tonumber(meta[1] or 0) or 0
  local last = last_number(redis.call('HGET', TOPIC, 'last'))
  local event, number = event_from(position > last and 1 or position + 1)
  local lag = meta[1] and event and last - number + 1 or 0
  local parked = tonumber(redis.call('ZRANGE', PARKED, 0, 0, 'WITHSCORES')[2])
  local undrawn = sooner(parked, lag > 0 and written_at(event) or nil)
  if tonumber(meta[4] or '') then
    local passed, written = passed_over(position, tonumber(meta[4]))
    lag, undrawn = lag + passed, sooner(undrawn, written)
  end
  local ready = counts[7] > 0 and counts[7] or nil
  counts[1] = counts[1] + redis.call('ZCARD', PARKED) + lag
  counts[7] = sooner(ready, undrawn) or 0
  counts[9], counts[10] = lag, position
  counts[11] = sooner(untouched_in_lanes(), undrawn) or 0
  counts[12], counts[13] = meta[2] or '0', meta[3] or '0'
end

local function add_behind(counts)
  if META ~= TOPIC then
    return add_behind_group(counts)
  end
  local event = event_from(1)
  counts[1] = redis.call('XLEN', LOG)
  counts[7] = event and written_at(event) or 0
end
