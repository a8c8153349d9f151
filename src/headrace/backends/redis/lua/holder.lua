-- Names the message that holds a unique key.
--
-- requires: queue place
-- keys:     those of the queue
-- args:     key
-- answers:  its id, empty: nobody holds it
local value = redis.call('GET', UNIQUE .. ARGV[5])
if not value then
  return ''
end
local expiry, id = string.match(value, '^(%d+) (.*)$')
if expiry ~= '0' then
  return tonumber(expiry) > clock() and id or ''
end
-- It is held as long as its message waits or runs.
local place = place_of(id)
return place and place ~= 'D' and message_at(place, id) and id or ''
