-- Forgets a consumer in every lane where it holds nothing: with a consumer its held entries would vanish.
--
-- requires: queue
-- keys:     those of the queue
-- args:     consumer
-- answers:  in how many lanes it is still needed
local needed = 0
for lane = 0, 9 do
  local rows = redis.pcall('XPENDING', lane_key(lane), GROUP, '-', '+', 1, ARGV[5])
  if #rows == 0 then
    redis.pcall('XGROUP', 'DELCONSUMER', lane_key(lane), GROUP, ARGV[5])
  else
    needed = needed + 1
  end
end
return needed
