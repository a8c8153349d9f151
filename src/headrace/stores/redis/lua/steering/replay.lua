-- Queues dead letters again under the same id, with a fresh state, or parks them until their key is free.
-- Appends first and removes after.
--
-- requires: queue message place queueing ordering ending expiry expiring unique healing limits lines
-- keys:     those of the queue
-- args:     bytes of bodies after which it stops · microseconds for which the end record of an expired owner of a
--           unique key stays · ids
-- answers:  for each: replayed, duplicate or gone; fewer than there are ids when it stopped
local bytes, ttl = tonumber(ARGV[5]), tonumber(ARGV[6])

-- Takes the unique key again; false when another message holds it.
local function take_key(unique, id)
  if not unique or string.sub(unique, 1, 1) ~= 'f' then
    return true
  end
  local key = string.sub(unique, 2)
  local owner, expired = holder_of(key, clock())
  if owner then
    return false
  end
  redis.call('SET', UNIQUE .. key, '0 ' .. id)
  if expired then
    end_owner(expired, ttl)
  end
  return true
end

local function replay(id)
  local packed = place_of(id) == 'D' and redis.call('HGET', MESSAGES, id)
  if not packed then
    return 'gone'
  end
  local message = unpacked(id, packed)
  if not take_key(get(message, 'u'), id) then
    return 'duplicate'
  end
  for _, name in ipairs({ 's', 'r', 'f', 'e' }) do
    put(message, name, nil)
  end
  bytes = bytes - #packed
  local key = ordered_key(get(message, 'u'))
  if not key or take_turn(key, id, '', message, clock()) then
    enqueue(id, '', message)
    if not get(message, 'g') then
      redis.call('HDEL', MESSAGES, id)
    end
  end
  redis.call('ZREM', DEAD, id)
  return 'replayed'
end

local answers = {}
for at = 7, #ARGV do
  if bytes > 0 then
    answers[#answers + 1] = replay(ARGV[at])
  end
end
return answers
