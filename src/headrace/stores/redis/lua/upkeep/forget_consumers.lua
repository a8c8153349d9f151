-- Forgets consumers that hold nothing and were not seen for long: the names that dead workers leave behind. A lane
-- that has become empty is not in use any more, so that claims need not read it.
--
-- requires: queue counting
-- keys:     those of the queue
-- args:     milliseconds · limit · microseconds for which the last look of any worker is enough
-- answers:  how many names were forgotten
local oldest, limit, every = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local count, used, is_dropped = 0, '', false

-- A look takes time for each consumer, and each worker is a consumer: without this the work of a fleet would grow
-- with the square of its size. A stream that was removed has no record, and gets none here.
local now, swept = clock(), tonumber(redis.call('HGET', META, 'swept') or '')
if swept and swept <= now and swept > now - every then
  return 0
end
if redis.call('EXISTS', META) == 1 then
  redis.call('HDEL', META, 'swept') -- a removal first: it is not refused when memory is short
  redis.call('HSET', META, 'swept', digits(now))
end

local function sweep(key, idle, is_any)
  for _, consumer in ipairs(redis.pcall('XINFO', 'CONSUMERS', key, GROUP)) do
    local facts = {}
    for at = 1, #consumer, 2 do
      facts[consumer[at]] = consumer[at + 1]
    end
    if count < limit and (is_any or facts['pending'] == 0) and facts['idle'] >= idle then
      redis.call('XGROUP', 'DELCONSUMER', key, GROUP, facts['name'])
      count = count + 1
    end
  end
end

local has_lines = redis.call('EXISTS', string.sub(META, 1, -5) .. 'lined') == 1
local in_use, known = lanes()
for _, lane in ipairs(in_use) do
  if lane == 4 then
    sweep(lane_key(lane), oldest)
  elseif length_of(lane) > 0 or (lane == HELD and has_lines) then
    -- What waits in a line goes to the lane of what is handed out, and no claim notes that lane.
    sweep(lane_key(lane), oldest)
    used = used .. lane
  else
    sweep(lane_key(lane), 0)
    is_dropped = true
  end
end
-- A ticket that a reader took with it is of no use any more (see limits.lua).
for letter in string.gmatch(known, '[a-j]') do
  sweep(lane_key(string.byte(letter) - 97) .. '/open', has_lines and oldest or 0, true)
  used, is_dropped = used .. (has_lines and letter or ''), is_dropped or not has_lines
end
if is_dropped then
  redis.call('HDEL', META, 'lanes')
  if used ~= '' then
    redis.call('HSET', META, 'lanes', used)
  end
end
return count
