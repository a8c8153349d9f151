-- Says who stands in the way of messages that are to be appended.
--
-- requires: queue message place expiry unique
-- keys:     those of the queue or topic
-- args:     1 or 0: ids that are known stand in the way · for each message: id · unique key with a letter in
--           front, or empty
-- answers:  an id for each, empty: nobody
local now, by_id = clock(), ARGV[5] == '1'

local function has_mark(id)
  local value = text_at(MARK .. id)
  return value and (tonumber(string.match(value, '^%d+ (%d+)') or '') or 0) > now
end

local function lives(id, value)
  return message_at(string.match(value, '^[^;]*'), id) ~= nil
end

local function is_known(id)
  local value = redis.call('HGET', IDS, id)
  return (value and lives(id, value)) or has_mark(id)
end

local answers = {}
for at = 6, #ARGV, 2 do
  local id, key = ARGV[at], ARGV[at + 1]
  local holder = by_id and is_known(id) and id or ''
  if holder == '' and key ~= '' then
    holder = holder_of(string.sub(key, 2), now) or ''
  end
  answers[#answers + 1] = holder
end
return answers
