-- Makes the group of every lane that is in use and stores the lease. One that is shortened holds as it was until it would have
-- run out. Announces a change.
--
-- requires: queue counting moved
-- keys:     those of the queue
-- args:     lease in microseconds, or empty: only the groups
-- answers:  the lease that stood there before
local moved = ARGV[5] ~= '' and moved_answer(text_at(PRODUCER))
if moved then
  return moved
end
-- What was known of the lanes may have been deleted by hand.
local known = redis.call('HGET', META, 'lanes') or ''
local used = known
for lane = 0, 9 do
  if lane ~= 4 and not string.find(used, lane, 1, true) and length_of(lane) > 0 then
    used = used .. lane
  end
end
local prefix = string.sub(META, 1, -5)
if not string.find(used, '[a-j]') and redis.call('EXISTS', prefix .. 'lined') == 1 then
  used = used .. 'abcdefghij'
end
if not string.find(used, HELD, 1, true) and length_of(HELD) > 0 then
  used = used .. HELD
end
if used ~= known then
  redis.call('HSET', META, 'lanes', used)
  redis.call('PUBLISH', NOTICES, 'lane ' .. LABEL .. ' ' .. used)
end
for _, lane in ipairs(lanes()) do
  -- It may be there. Queues are read from the beginning: what is done is deleted.
  redis.pcall('XGROUP', 'CREATE', lane_key(lane), GROUP, '0', 'MKSTREAM')
end
for letter in string.gmatch(used, '[a-j]') do
  redis.pcall('XGROUP', 'CREATE', lane_key(string.byte(letter) - 97) .. '/open', GROUP, '0', 'MKSTREAM')
end
local meta = redis.call('HMGET', META, 'lease', 'longer', 'until')
local before = meta[1]
if ARGV[5] == '' or ARGV[5] == before then
  return before
end

redis.call('HSET', META, 'lease', ARGV[5])
if before then
  local now, was, lease = clock(), tonumber(before) or tonumber(ARGV[5]), tonumber(ARGV[5])
  local last = tonumber(meta[3] or 0) or 0
  local held = now < last and math.max(was, tonumber(meta[2] or 0) or 0) or was
  if lease >= held then
    redis.call('HDEL', META, 'longer', 'until')
  else
    last = math.max(last, lease < was and now + was or 0)
    redis.call('HSET', META, 'longer', digits(held), 'until', digits(last))
  end
  redis.call('PUBLISH', NOTICES, 'lease ' .. LABEL .. ' ' .. ARGV[5])
end
return before
