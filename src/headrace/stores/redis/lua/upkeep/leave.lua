-- Forgets a consumer in every lane where it holds nothing: with a consumer its held entries would vanish.
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
end
for letter in string.gmatch(redis.call('HGET', META, 'lanes') or '', '[a-j]') do
  redis.pcall('XGROUP', 'DELCONSUMER', lane_key(string.byte(letter) - 97) .. '/open', GROUP, ARGV[5])
end
return needed
