-- Messages with constraints or an order key, in a script about one queue: they wait in lines instead of lanes, or are
-- parked until their key is free. The functions that move messages are replaced by ones that know them. (Scripts for
-- messages without constraints do without this part.)
--
-- Order keys: `:keys` holds for each key, behind a k, the id that has it from its first place in a line until its end,
-- and for each id, behind an i, its key. `:parked/<key>` has the others of the key by place.
--
-- offers:  PREFIX KEY_HOLDERS has_turn put_in_line let_next_of pass_key
local PREFIX = string.sub(META, 1, -5)
local KEY_HOLDERS = PREFIX .. 'keys'

local function has_turn(id, flags, message)
  local key = get(message, 'k')
  if not key then
    return true
  end
  local owner = redis.call('HGET', KEY_HOLDERS, 'k' .. key)
  if owner == id then
    return true
  elseif not owner then
    redis.call('HSET', KEY_HOLDERS, 'k' .. key, id, 'i' .. id, key)
    return true
  end
  redis.call('HSET', KEY_HOLDERS, 'i' .. id, key)
  redis.call('ZADD', PREFIX .. 'parked/' .. key, add_to(META, 'places', 1), id)
  park(id, flags, message, 'K', clock())
  return false
end

local function put_in_line(id, flags, message, lane, now)
  local letter, packed = letter_of(lane), packed_for_line(message)
  redis.call('HSET', MESSAGES, id, packed)
  if #packed > BULKY then
    redis.call('HSET', META, 'bulky', '1')
  end
  set_place(id, letter, flags)
  note_lane('x')
  note_lane(letter)
  enter_line(PREFIX, letter .. get(message, 'g'), id, now)
end

local enqueue_in_lane = enqueue
local function enqueue_in_line(id, flags, message, returned)
  local constraints = get(message, 'g')
  if not constraints then
    return enqueue_in_lane(id, flags, message, returned)
  elseif has_turn(id, flags, message) then
    put_in_line(id, flags, message, lane_of(message, returned), clock())
  end
end

-- A parked message whose stream was deleted by hand holds nothing.
local function next_of(key)
  while true do
    local id = redis.call('ZRANGE', PREFIX .. 'parked/' .. key, 0, 0)[1]
    if not id then
      return nil
    end
    redis.call('ZREM', PREFIX .. 'parked/' .. key, id)
    local packed = place_of(id) == 'K' and redis.call('HGET', MESSAGES, id)
    if packed then
      return id, unpacked(id, packed)
    end
    redis.call('HDEL', KEY_HOLDERS, 'i' .. id)
  end
end

local function let_next_of(key)
  local id, message = next_of(key)
  if not id then
    redis.call('HDEL', KEY_HOLDERS, 'k' .. key)
    return
  end
  local _, flags = place_of(id)
  redis.call('HSET', KEY_HOLDERS, 'k' .. key, id)
  redis.call('ZREM', PREFIX .. 'parked', id)
  enqueue(id, flags, message)
  if not get(message, 'g') then
    redis.call('HDEL', MESSAGES, id) -- it cannot be read, and is in a lane
  end
end

-- A message is over: the next of its key takes the key.
local function pass_key(id)
  local key = redis.call('HGET', KEY_HOLDERS, 'i' .. id)
  if key then
    redis.call('HDEL', KEY_HOLDERS, 'i' .. id)
    if redis.call('HGET', KEY_HOLDERS, 'k' .. key) == id then
      let_next_of(key)
    end
  end
end

local unpark_plain, finish_plain, bury_plain = unpark, finish, bury

-- What was queued again has a place and a message there.
local function unpark_any(id, place)
  local at = place_of(id)
  place = place == 'L' and at or place
  local line = string.match(place, '^[a-j]$')
  local packed = line and redis.call('HGET', MESSAGES, id)
  if packed then
    leave_line(PREFIX, line .. (get(unpacked(id, packed), 'g') or ''), { id }, clock())
  elseif place == 'K' then
    redis.call('ZREM', PREFIX .. 'parked/' .. (redis.call('HGET', KEY_HOLDERS, 'i' .. id) or ''), id)
  end
  if at and at ~= place and string.find(at, '^[a-jK]') then
    redis.call('ZREM', agenda_of(place), id)
  else
    unpark_plain(id, place)
  end
end

-- Groups of topics have an order of their own, and no limits.
if not LINES then
  enqueue = enqueue_in_line
  unpark = unpark_any
  finish = function(id, flags, unique, ttl, content)
    finish_plain(id, flags, unique, ttl, content)
    pass_key(id)
  end
  bury = function(id, flags, message, state, reason, failure)
    bury_plain(id, flags, message, state, reason, failure)
    pass_key(id)
  end
end
