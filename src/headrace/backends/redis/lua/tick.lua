-- Advances a schedule to its next moment and appends the messages of that moment; what follows here is
-- append.lua. The last four arguments are taken off first, the others are those of append.lua.
--
-- requires: queue message place queueing counting ordering ending expiry expiring unique
-- continues: append
-- keys:     those of the queue
-- args:     those of append.lua, without a limit; then name · the last moment as expected · the next ·
--           by which timetable, or empty: as it was
-- answers:  0: refused, nothing is changed; else what append.lua answers
local timing = table.remove(ARGV)
local next_moment = table.remove(ARGV)
local expected = table.remove(ARGV)
local name = table.remove(ARGV)

local standing = redis.call('HMGET', SCHEDULES, 'l:' .. name, 'p:' .. name)
if standing[1] ~= expected or standing[2] or tonumber(next_moment) > clock() then
  return 0
end
redis.call('HSET', SCHEDULES, 'l:' .. name, next_moment)
if timing ~= '' then
  redis.call('HSET', SCHEDULES, 't:' .. name, timing)
end
if #ARGV < 10 then
  return {}
end
redis.call('HSET', SCHEDULES, 'f:' .. name, next_moment)
