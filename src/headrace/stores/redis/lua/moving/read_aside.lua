-- Reads messages that are not in a lane.
--
-- requires: message
-- keys:     sorted set · messages
-- args:     the rank to begin with, or empty: the ids follow · limit · bytes after which it stops · ids
-- answers:  for each: id · score · message, empty: it is gone
local from, limit, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local found = {}
if from == '' then
  for at = 4, #ARGV do
    found[#found + 1] = ARGV[at]
    found[#found + 1] = redis.call('ZSCORE', KEYS[1], ARGV[at]) or '0'
  end
else
  found = redis.call('ZRANGE', KEYS[1], from, from + limit - 1, 'WITHSCORES')
end
local rows = {}
for at = 1, #found, 2 do
  local packed = redis.call('HGET', KEYS[2], found[at])
  bytes = bytes - (packed and #packed or 0)
  if #rows > 0 and bytes < 0 then
    break
  end
  rows[#rows + 1] = { found[at], found[at + 1], packed and unpacked(found[at], packed) or {} }
end
return rows
