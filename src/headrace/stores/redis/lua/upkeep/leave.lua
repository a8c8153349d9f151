-- Forgets a consumer in every lane where it holds nothing: with a consumer its held entries would vanish. A ticket that
-- it holds is of no use any more (see limits.lua). A read that is under way when the lines of a lane go out of use brings
-- its name back, so META does not say where the names are.
--
-- requires: queue
-- keys:     those of the queue
-- args:     consumer
-- answers:  in how many lanes it is still needed
local needed = 0
for number = 0, 10 do
  local lane = number < 10 and number or HELD
  local rows = redis.pcall('XPENDING', lane_key(lane), GROUP, '-', '+', 1, ARGV[5])
  if #rows == 0 then
    redis.pcall('XGROUP', 'DELCONSUMER', lane_key(lane), GROUP, ARGV[5])
  else
    needed = needed + 1
  end
  redis.pcall('XGROUP', 'DELCONSUMER', lane_key(lane) .. '/open', GROUP, ARGV[5])
end
return needed
