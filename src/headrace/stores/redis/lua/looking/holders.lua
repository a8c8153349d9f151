-- Names the messages that have ids and unique keys which others want. Only reads.
--
-- requires: queue message place expiry unique
-- keys:     those of the queue or topic
-- args:     for each: id, or empty · unique key, or empty
-- answers:  an id for each, empty: no message has them
local now = clock()

local function has_end_record(id)
  local value = text_at(END_RECORD .. id)
  return value and (tonumber(string.match(value, '^%d+ (%d+)') or '') or 0) > now
end

local function lives(id, value)
  return message_at(string.match(value, '^[^;]*'), id) ~= nil
end

local function is_known(id)
  local value = redis.call('HGET', IDS, id)
  return (value and lives(id, value)) or has_end_record(id)
end

local answers = {}
for at = 5, #ARGV, 2 do
  local id, key = ARGV[at], ARGV[at + 1]
  local known = id ~= '' and is_known(id) and id
  answers[#answers + 1] = known or (key ~= '' and holder_of(key, now)) or ''
end
return answers
