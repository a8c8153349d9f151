-- Copies events from the log of a topic into the stream of a group, where they are messages like any other. An
-- event that the group already has is passed over; in an ordered group one whose key is held is parked.

-- What one script may copy: events, and bytes of their bodies.
local DRAWN_ITEMS, DRAWN_BYTES = 500, 1048576

-- The group whose keys these are: its keys, and how it stands (nil: it has no position).
local function group_with(label, lanes, ids, messages, meta, parked, lines)
  local known = redis.call('HMGET', meta, 'position', 'ordered', 'seen', 'paused', 'awaited')
  return {
    label = label,
    lanes = lanes,
    ids = ids,
    messages = messages,
    meta = meta,
    parked = parked,
    lines = lines,
    position = tonumber(known[1]),
    ordered = known[2] == '1',
    seen = tonumber(known[3] or 0),
    paused = known[4] == '1',
    awaited = tonumber(known[5] or 0),
  }
end

-- The group that a script about it is called with.
local function own_group()
  return group_with(LABEL, { KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5] }, IDS, MESSAGES, META, PARKED, LINES)
end

-- A group by its name, in a script about its topic: its keys are named as those of the topic, behind a prefix.
local function group_named(name)
  local prefix, cut = GROUP_PREFIX .. name .. '/', #GROUP_PREFIX - 1
  local function own(key)
    return prefix .. string.sub(key, cut)
  end
  local lanes = {}
  for lane = 1, 5 do
    lanes[lane] = own(KEYS[lane])
  end
  local label = 'group:' .. string.match(LABEL, '^topic:(.*)$') .. '/' .. name
  return group_with(label, lanes, own(IDS), own(MESSAGES), own(META), own(PARKED), own(LINES))
end

-- Whether a member waits for events, so that they must come into a lane to wake it. Real time, whatever a test
-- says.
local function is_awaited(group, now)
  return group.awaited > now - OFFSET and not group.paused
end

-- How many wait in the lane that events are drawn into.
local function drawn_ahead(group)
  local length = redis.call('XLEN', group.lanes[4])
  if length == 0 then
    return 0
  end
  local held = redis.pcall('XPENDING', group.lanes[4], GROUP)
  return length - (held[1] or 0)
end

-- Whether a place is more than a memory of a stream that was deleted by hand.
local function stands(group, id, value)
  local lane, entry = string.match(value, '^(%d)([%d-]+)')
  if lane then
    return #redis.call('XRANGE', group.lanes[tonumber(lane)], entry, entry) > 0
  end
  return redis.call('HEXISTS', group.messages, id) == 1
end

-- Which of the events the group has already, by id.
local function known_among(group, events, from, to)
  local ids, known = {}, {}
  for index = from, to do
    ids[#ids + 1] = events[index][2]
  end
  for index, value in ipairs(redis.call('HMGET', group.ids, unpack(ids))) do
    if value and stands(group, ids[index], value) then
      known[ids[index]] = true
    end
  end
  return known
end

-- The lines of the keys of the events, by key.
local function lines_for(group, events, from, to)
  local keys, lines = {}, {}
  for index = from, to do
    local key = get(events[index], 'k')
    if key and not lines[key] then
      keys[#keys + 1] = key
      lines[key] = ''
    end
  end
  if #keys > 0 then
    for index, line in ipairs(redis.call('HMGET', group.lines, unpack(keys))) do
      lines[keys[index]] = line or ''
    end
  end
  return lines
end

-- Whoever stands at the head of a line but is no more, since somebody deleted its stream by hand, holds nothing.
local function is_held(group, line)
  local head = string.match(line, '^%S+')
  local value = head and redis.call('HGET', group.ids, head)
  return value and stands(group, head, value)
end

-- Collects what is written, so that it is written in few commands.
local function new_copies()
  return { places = {}, bodies = {}, parked = {}, lines = {} }
end

local function add(list, one, other)
  list[#list + 1] = one
  list[#list + 1] = other
end

-- Sets many fields of a hash. A small hash is a list on the server, and to fill that with hundreds of fields is
-- a fifth of the work of a drain; a long value, of a field that no id and no key is like, makes it a table.
local function set_fields(hash, fields)
  if #fields < 60 then
    redis.call('HSET', hash, unpack(fields))
    return
  end
  add(fields, '', string.rep(' ', 65))
  redis.call('HSET', hash, unpack(fields))
  redis.call('HDEL', hash, '')
end

local function write_copies(group, copies)
  if #copies.parked > 0 then
    redis.call('ZADD', group.parked, unpack(copies.parked))
    set_fields(group.messages, copies.bodies)
  end
  if #copies.places > 0 then
    set_fields(group.ids, copies.places)
  end
  local lines = {}
  for key, line in pairs(copies.lines) do
    lines[#lines + 1] = key
    lines[#lines + 1] = line
  end
  if #lines > 0 then
    set_fields(group.lines, lines)
  end
  redis.call('HSET', group.meta, 'position', group.position)
end

local function copy_to_lane(group, copies, event, unique, late)
  local id, lane = event[2], group.lanes[4]
  local entry = next_entry_of(lane)
  local expiry = #event > 8 and get(event, 'e')
  if not (unique or expiry or late) then
    entry = redis.call('XADD', lane, entry, 'i', id, 't', event[4], 'm', event[6])
  elseif not (unique or expiry) then
    entry = redis.call('XADD', lane, entry, 'i', id, 't', event[4], 'm', event[6], 'a', event[8])
  else
    local message = { 'i', id, 't', event[4], 'm', event[6] }
    put(message, 'e', expiry)
    put(message, 'u', unique)
    put(message, 'a', late and event[8])
    entry = redis.call('XADD', lane, entry, unpack(message))
  end
  note_size(group.meta, 4, entry, #event[6])
  copies.ready = true
  add(copies.places, id, '4' .. entry)
end

local function copy_to_parking(group, copies, event, unique)
  local id = event[2]
  local message = { 'i', id, 't', event[4], 'm', event[6], 'u', unique, 'a', event[8] }
  put(message, 'e', get(event, 'e'))
  add(copies.bodies, id, cmsgpack.pack(message))
  add(copies.parked, event[8], id)
  add(copies.places, id, 'K')
  group.parked_now = group.parked_now + 1
end

local function copy_in_order(group, copies, lines, event, late)
  local key, id = get(event, 'k'), event[2]
  if not key then
    return copy_to_lane(group, copies, event, nil, late)
  end
  local line = copies.lines[key] or lines[key]
  -- A line of one whose head is gone is free. Behind a longer one it is parked all the same: draw.lua mends it.
  if line ~= '' and (copies.lines[key] or string.find(line, ' ', 1, true) or is_held(group, line)) then
    copy_to_parking(group, copies, event, 'k' .. key)
    copies.lines[key] = line .. ' ' .. id
  else
    copy_to_lane(group, copies, event, 'k' .. key, late)
    copies.lines[key] = id
  end
end

-- Takes the events `from` to `to`, whose numbers follow the position, until too many are parked. `fresh`: nobody
-- can know their ids. `late`: they were written a while ago. Answers how many of them are left to take.
local function take_in(group, events, from, to, fresh, late)
  local known = fresh and {} or known_among(group, events, from, to)
  local lines = group.ordered and lines_for(group, events, from, to)
  local copies = new_copies()
  group.parked_now = group.parked_now or (group.ordered and redis.call('ZCARD', group.parked) or 0)
  local index = from
  while index <= to and group.parked_now < PARKED_MOST do
    local event = events[index]
    if not known[event[2]] then
      known[event[2]] = true
      if lines then
        copy_in_order(group, copies, lines, event, late)
      else
        copy_to_lane(group, copies, event, nil, late)
      end
    end
    index = index + 1
  end
  group.position = group.position + index - from
  write_copies(group, copies)
  if copies.ready then
    call_waiter(group.meta, group.label, redis.call('GET', awaited_key(group.meta)))
  end
  return to - index + 1
end

-- Events of the log behind a position, and the number of the first. How large they are is not known before, so
-- it reads a few and then more.
local function read_log(position, items)
  local events, first, bytes, piece, largest = {}, nil, DRAWN_BYTES, 2, 1
  while #events < items and bytes > 0 do
    local count = math.min(piece, items - #events, math.max(1, math.floor(bytes / largest)))
    local rows = redis.call('XRANGE', LOG, position + 1, '+', 'COUNT', count)
    for _, row in ipairs(rows) do
      position = number_of(row[1])
      first = first or position
      events[#events + 1] = row[2]
      largest = math.max(largest, #row[2][6])
      bytes = bytes - #row[2][6]
    end
    if #rows < count then
      break
    end
    piece = piece * 2
  end
  return events, first
end

-- Draws events from the log, at most so many. Answers how many were taken from it, and whether there are more
-- that could be.
local function draw(group, last, items)
  items = math.min(items, DRAWN_ITEMS)
  if group.ordered then
    group.parked_now = redis.call('ZCARD', group.parked)
    items = math.min(items, PARKED_MOST - group.parked_now)
    if items <= 0 then
      return 0, false
    end
  end
  local events, first = read_log(group.position, items)
  if not first then
    group.position = last
    redis.call('HSET', group.meta, 'position', last)
    return 0, false
  end
  group.position = first - 1
  local left = take_in(group, events, 1, #events, false, true)
  return #events - left, left == 0 and group.position < last
end
