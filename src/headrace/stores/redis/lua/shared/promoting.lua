-- Queues what is due, the earliest first. Ends a promotion of messages without constraints before the parts that only
-- the others need: while jobs become due all the time, most promotions find one or two of them.
local limit, bytes, count = tonumber(ARGV[5]), tonumber(ARGV[6]), 0

local function due_in(key, now)
  return redis.call('ZRANGEBYSCORE', key, '-inf', digits(now), 'WITHSCORES', 'LIMIT', 0, limit - count)
end

-- Answers false when the message has constraints, and only those without are promoted.
local function promote(id, place, only_plain)
  local packed = redis.call('HGET', MESSAGES, id)
  local message = packed and unpacked(id, packed)
  if message and only_plain and get(message, 'g') then
    return false
  elseif message then
    local _, flags = place_of(id)
    enqueue(id, flags, message)
    bytes = bytes - #packed
  else
    redis.call('HDEL', IDS, id)
  end
  unpark(id, place)
  count = count + 1
  return true
end

-- Answers false when it has stopped at a message with constraints.
local function promote_due(now, only_plain)
  local due, retry = due_in(DUE, now), due_in(RETRY, now)
  local d, r = 1, 1
  while count < limit and bytes > 0 and (due[d] or retry[r]) do
    local is_retry = not due[d] or (retry[r] and tonumber(retry[r + 1]) < tonumber(due[d + 1]))
    if not promote(is_retry and retry[r] or due[d], is_retry and 'R' or 'S', only_plain) then
      return false
    elseif is_retry then
      r = r + 2
    else
      d = d + 2
    end
  end
  return true
end

do
  local now, timer = clock(), first_timer()
  local needs_more = timer and timer <= now or not (LINES or is_mended(now))
  if not needs_more and promote_due(now, true) then
    if count > 0 then
      count_promotion()
    end
    local soonest = soonest_of(first_due(), timer)
    return { count, soonest and math.max(0, soonest - now) or -1, 0, known_promotions() }
  end
end
