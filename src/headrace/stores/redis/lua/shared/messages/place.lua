-- Where a message is: `:ids` holds for each id its place and, after a semicolon, flags.
--   place: a lane's number (or x) followed by the entry's id, or S scheduled, R retrying, D dead, K parked until
--          its key is free, a to j in a line of the lane 0 to 9 (see limits.lua)
--   flags: c its cancellation was requested (see `:cancel`), w a caller waits for its end (see `:w`),
--          p a run of it has reported progress (see `:progress`)
local function place_of(id)
  local value = redis.call('HGET', IDS, id)
  if not value then
    return nil, ''
  end
  return string.match(value, '^([^;]*);?(.*)$')
end

local function set_place(id, place, flags)
  if flags ~= '' then
    place = place .. ';' .. flags
  end
  redis.call('HSET', IDS, id, place)
end

-- The lane and entry of a place, or nothing when it is not in a lane.
local function entry_at(place)
  local lane, entry = string.match(place, '^([%dx])(%d+%-%d+)$')
  return tonumber(lane) or lane, entry
end

-- The holder of an entry: {entry, consumer, milliseconds since the last renewal, count}; nil: there is none.
local function holder(lane, entry)
  local rows = redis.pcall('XPENDING', lane_key(lane), GROUP, entry, entry, 1)
  return rows[1]
end

local function message_in(lane, entry)
  local rows = redis.pcall('XRANGE', lane_key(lane), entry, entry)
  if rows.err and not string.find(rows.err, 'Invalid stream ID', 1, true) then
    rows = redis.call('XRANGE', lane_key(lane), entry, entry)
  end
  local message = rows[1] and shortened(rows[1][2])
  if message and lane == HELD then
    -- The entry has only the id: the message stays in `:msg`.
    local id = get(message, 'i')
    local packed = id and redis.call('HGET', MESSAGES, id)
    return packed and unpacked(id, packed) or get(message, 'm') and message or nil
  end
  return message
end

-- The sorted set that a place outside of the lanes belongs to. (L: any line.)
local function agenda_of(place)
  if place == 'S' or place == 'R' or place == 'D' then
    return place == 'S' and DUE or place == 'R' and RETRY or DEAD
  end
  return string.sub(META, 1, -5) .. (place == 'K' and 'parked' or 'lined')
end

-- The message at a place; nil when the place is empty, because the stream was deleted by hand.
local function message_at(place, id)
  local lane, entry = entry_at(place)
  if lane then
    return message_in(lane, entry)
  end
  local packed = redis.call('HGET', MESSAGES, id)
  return packed and unpacked(id, packed)
end

-- Whether this consumer still holds the message by this very hand-out. An entry is handed out once: a step
-- that takes a message from its holder makes a new entry. Only a group that was destroyed and made again hands the
-- same entry to another, hence the look at the consumer.
local function held(id, lane, entry, consumer)
  local place, flags = place_of(id)
  if place ~= lane .. entry then
    return false
  end
  local row = holder(lane, entry)
  return row and row[2] == consumer, flags
end

-- The report of the run that holds the message now, or nothing: '<time> <fraction, or - when there is none> <bytes of
-- the text> <text><log>'.
local function report_of(id, place)
  local reported_at, report = string.match(redis.call('HGET', PROGRESS, id) or '', '^(%S+) (.*)$')
  return reported_at == place and report or nil
end

local function take_out(lane, entry)
  redis.call('XACK', lane_key(lane), GROUP, entry)
  redis.call('XDEL', lane_key(lane), entry)
end
