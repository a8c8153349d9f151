-- Stores one message that is fresh and has no options: `append` for the most common case, in half of its time,
-- most of which goes into keys, arguments and functions that are not needed here. What is stored is the same.
-- Refused whole when the server has no memory left.
--
-- keys:     lane · ids · producer and chunk · prefix of producers
-- args:     milliseconds to remember the answer · number of the batch · task · id · body
-- answers:  1: it was taken. 0: nothing was done, `append` is to say why: it is a repeat, or the part is sealed
local call = redis.call
local standing = call('MGET', KEYS[3], KEYS[4])
local last = standing[1]
if standing[2] or last and (string.match(last, '^%d+') or 0) + 0 >= ARGV[2] + 0 then
  return 0
end
local entry = call('XADD', KEYS[1], '*', 'i', ARGV[4], 't', ARGV[3], 'm', ARGV[5])
call('HSET', KEYS[2], ARGV[4], '4' .. entry)
-- An entry's id begins with the server's clock in milliseconds, 13 digits for the next 250 years: no call for it.
call('SET', KEYS[3], ARGV[2] .. ' ' .. string.sub(entry, 1, 13) + ARGV[1] .. '000 ', 'PX', ARGV[1])
return 1
