-- Stores one message that is fresh and has no options: `append` for the most common case, in half of its time,
-- most of which goes into keys, arguments and functions that are not needed here. What is stored is the same.
-- Refused whole when the server has no memory left.
--
-- keys:     lane · ids · producer and chunk · prefix of producers
-- args:     milliseconds to remember the answer · number of the batch, and a space · task · id · body
-- answers:  1: it was taken. 0: nothing was done, `append` is to say why: it is a repeat, or the part is sealed
local call, number, id = redis.call, ARGV[2], ARGV[4]
local known = call('MGET', KEYS[3], KEYS[4])
local last = known[1]
-- Numbers have leading zeros, so that they compare as texts do.
if known[2] or last and last >= number then
  return 0
end
call('HSET', KEYS[2], id, '4' .. call('XADD', KEYS[1], '*', 'i', id, 't', ARGV[3], 'm', ARGV[5]))
-- It ends with its key, so that no call for the time is needed.
call('SET', KEYS[3], number .. '9999999999999999 ', 'PX', ARGV[1])
return 1
