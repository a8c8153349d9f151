-- Keys of an ordered group. `:keys` holds for each key the ids that have it, with blanks between: the one that holds it,
-- from the moment it is in a lane until its end, then those that are parked behind, in order.

-- The key of an event in an ordered group; nil: it has none. In a queue, another program wrote it.
local function ordered_key(unique)
  return LINES and string.match(unique or '', '^k(.*)$')
end

-- Of a key that is deferred more can be drawn again once few are parked: `:deferred` says so behind the last blank
-- (see drawing.lua).
local has_deferred

local function note_room(key, line)
  if has_deferred == nil then
    has_deferred = redis.call('EXISTS', DEFERRED) == 1
  end
  local value = has_deferred and redis.call('HGET', DEFERRED, key)
  if value and string.sub(value, -1) == '0' and select(2, string.gsub(line, ' ', '')) < DRAWABLE_BELOW then
    redis.call('HSET', DEFERRED, key, string.sub(value, 1, -2) .. '1')
  end
end

-- The first of a line, and what comes behind it. (A pattern would walk over the whole line.)
local function cut(line)
  local blank = string.find(line, ' ', 1, true)
  if not blank then
    return line, ''
  end
  return string.sub(line, 1, blank - 1), string.sub(line, blank + 1)
end

-- The first of a line that is really parked; those that were deleted by hand are left out.
local function next_in(line)
  while line ~= '' do
    local id, rest = cut(line)
    local packed = redis.call('HGET', MESSAGES, id)
    if packed and string.sub(redis.call('HGET', IDS, id) or '', 1, 1) == 'K' then
      return id, packed, line
    end
    line = rest
  end
end

-- Lets the first of those that are parked into its lane; without one the key is free.
local function let_next_in(key, line)
  local id, packed, left = next_in(line)
  note_room(key, left or '')
  if not id then
    redis.call('HDEL', LINES, key)
    return
  end
  local _, flags = place_of(id)
  redis.call('HSET', LINES, key, left)
  enqueue(id, flags, unpacked(id, packed))
  unpark(id, 'K')
end

-- A message with this key is over: the next takes the key. One that was only parked leaves the line.
local function hand_on(key, id)
  local line = redis.call('HGET', LINES, key)
  if not line then
    return
  end
  local head, rest = cut(line)
  if head == id then
    let_next_in(key, rest)
    return
  end
  local from, to = string.find(line .. ' ', ' ' .. id .. ' ', 1, true)
  if from then
    line = string.sub(line, 1, from - 1) .. string.sub(line, to)
    redis.call('HSET', LINES, key, line)
    note_room(key, line)
  end
end

-- Gives a message its key, if that is free; else it is parked. Answers whether it is free.
local function take_turn(key, id, flags, message, now)
  local line = redis.call('HGET', LINES, key)
  if not line then
    redis.call('HSET', LINES, key, id)
    return true
  end
  redis.call('HSET', LINES, key, line .. ' ' .. id)
  local since = tonumber(get(message, 'a') or '') or now
  put(message, 'a', digits(since))
  park(id, flags, message, 'K', since)
  return false
end
