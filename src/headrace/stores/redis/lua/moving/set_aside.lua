-- Gives the keys of a stream other names, under which only the move finds them. Before that it empties the lines of a
-- queue, and what is parked there, in bounded steps: so limits count them no more. Their messages are in `:msg`, with
-- two fields more: a since when they wait · n the number of their lane.
--
-- requires: queue message place queueing ordering ending healing limits lines
-- keys:     those of the stream
-- args:     the keys, then the other name of each
-- answers:  1, or 0: lines are left
local FIRST, MOST, BYTES = 5, 500, 1048576
local count = (#ARGV - FIRST + 1) / 2
local now, left, bytes = clock(), MOST, BYTES

-- Takes the first messages of a sorted set by time; calls `take` with each id, its message and letter.
local function take_from(name, take)
  while left > 0 and bytes > 0 do
    local first = redis.call('ZRANGE', PREFIX .. name, 0, 0, 'WITHSCORES')
    local id = first[1]
    if not id then
      return
    end
    local place, packed = place_of(id), redis.call('HGET', MESSAGES, id)
    if packed then
      local message = unpacked(id, packed)
      local score = take(id, message, place or '')
      put(message, 'a', first[2])
      redis.call('HSET', MESSAGES, id, cmsgpack.pack(message))
      redis.call('ZADD', PREFIX .. name .. '/aside', score or 0, id)
      bytes = bytes - #packed
    end
    redis.call('ZREM', PREFIX .. name, id)
    left = left - 1
  end
end

local function take_from_line(id, message, letter)
  local line = letter .. (get(message, 'g') or '')
  local score = redis.call('ZSCORE', PREFIX .. 'line/' .. line, id)
  leave_line(PREFIX, line, { id }, now)
  put(message, 'n', tostring((string.byte(letter) or 101) - 97))
  return score
end

local function take_parked(id)
  local parked = PREFIX .. 'parked/' .. (redis.call('HGET', KEY_HOLDERS, 'i' .. id) or '')
  local score = redis.call('ZSCORE', parked, id)
  redis.call('ZREM', parked, id)
  return score
end

if not LINES then
  take_from('lined', take_from_line)
  take_from('parked', take_parked)
  if redis.call('EXISTS', PREFIX .. 'lined', PREFIX .. 'parked') > 0 then
    return 0
  end
end
for at = FIRST, FIRST + count - 1 do
  if redis.call('EXISTS', ARGV[at]) == 1 and redis.call('EXISTS', ARGV[count + at]) == 0 then
    redis.call('RENAME', ARGV[at], ARGV[count + at])
  end
end
return 1
