-- Writes events that are due to the log of their topic, the earliest first, or the one that is named. Appends
-- first and removes after, so that it is refused whole when the server has no memory left.
--
-- requires: queue due promotions quiet_topic message place queueing topic drawing trimming publishing
-- keys:     those of the topic
-- args:     limit · bytes after which it stops · id, whenever it is due, or empty
-- answers:  how many · microseconds until the next is due, -1: nothing is scheduled · 0 · the number of promotions of all
--           workers
local limit, bytes, named = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local now = clock()
local due
if named ~= '' then
  due = place_of(named) == 'S' and { named } or {}
else
  due = redis.call('ZRANGEBYSCORE', DUE, '-inf', digits(now), 'LIMIT', 0, limit)
end

local topic = #due > 0 and topic_now()
local before, at, issued = topic and topic.last, digits(now), {}
for _, id in ipairs(due) do
  if bytes > 0 then
    local packed = redis.call('HGET', MESSAGES, id)
    if packed then
      local message = unpacked(id, packed)
      write(topic, id, get(message, 't'), get(message, 'm'), at, get(message, 'k'), get(message, 'e'))
      bytes = bytes - #packed
    end
    issued[#issued + 1] = id
  end
end
if #events > 0 then
  spread(topic, before, false, now)
end
for _, id in ipairs(issued) do
  redis.call('HDEL', IDS, id)
  unpark(id, 'S')
end
local next_due = first_due()
if #issued > 0 and named == '' then
  count_promotion()
end
return { #issued, next_due and math.max(0, next_due - now) or -1, 0, promotions() }
