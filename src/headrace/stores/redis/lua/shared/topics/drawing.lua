-- Copies events from the log of a topic into the stream of a group, where they are messages like any other. An
-- event that the group already has is passed over; in an ordered group one whose key is held is parked.
--
-- A key of which too many are parked is deferred: its events are passed over, and `:deferred` holds for the key
-- '<number> <passed> <drawable>': from this number on none was drawn, so many of them lie before the position, and 1
-- when more can be drawn since few are parked. `low` of the group is the smallest of these numbers (nil: no key is
-- deferred), `deferring` how many keys there are.

-- What one script may copy: events, and bytes of their bodies.
local DRAWN_ITEMS, DRAWN_BYTES = 500, 1048576

-- The group with these keys: its keys and its state (no position: there is no such group).
local function group_with(label, lanes, ids, messages, meta, parked, lines, deferred)
  local fields = { 'position', 'ordered', 'seen', 'paused', 'awaited', 'low', 'deferring', 'again', 'clearing' }
  local known = redis.call('HMGET', meta, unpack(fields))
  return {
    label = label,
    lanes = lanes,
    ids = ids,
    messages = messages,
    meta = meta,
    parked = parked,
    lines = lines,
    deferred = deferred,
    position = tonumber(known[1] or ''),
    ordered = known[2] == '1',
    seen = tonumber(known[3] or 0) or 0,
    paused = known[4] == '1',
    awaited = tonumber(known[5] or 0) or 0,
    low = tonumber(known[6] or ''),
    deferring = tonumber(known[7] or 0) or 0,
    again = tonumber(known[8] or 0) or 0, -- up to here it may meet what it has drawn before: it was reset
    clearing = known[9], -- it draws nothing before that is over: see clearing.lua
  }
end

-- The group that a script about it is called with.
local function own_group()
  local lanes = { KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5] }
  return group_with(LABEL, lanes, IDS, MESSAGES, META, PARKED, LINES, DEFERRED)
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
  return group_with(label, lanes, own(IDS), own(MESSAGES), own(META), own(PARKED), own(LINES), own(DEFERRED))
end

-- Whether a member waits for events, so that they must come into a lane to wake it. Real time, whatever a test
-- says.
local function is_awaited(group, now)
  return group.awaited > now - OFFSET and not group.paused and not group.clearing
end

-- The log was deleted by hand and begins anew.
local function begin_anew(group)
  group.position, group.low, group.deferring, group.again = 0, nil, 0, 0
  redis.call('DEL', group.deferred)
  redis.call('HDEL', group.meta, 'low', 'deferring', 'again')
  redis.call('HSET', group.meta, 'position', 0)
end

-- The number after which something may be left to draw.
local function low_water(group)
  return math.min(group.position or 0, group.low and group.low - 1 or math.huge)
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
local function is_there(group, id, value)
  local lane, entry = string.match(value, '^(%d)([%d-]+)')
  if lane then
    return #redis.pcall('XRANGE', group.lanes[tonumber(lane)] or group.lanes[4], entry, entry) > 0
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
    if value and is_there(group, ids[index], value) then
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

-- Whether the head of a line still exists. When its stream was deleted by hand, it holds nothing.
local function is_held(group, line)
  local head = string.match(line, '^%S+')
  local value = head and redis.call('HGET', group.ids, head)
  return value and is_there(group, head, value)
end

-- How many are parked behind the head of a line.
local function parked_in(line)
  return select(2, string.gsub(line, ' ', ''))
end

local function is_in(line, id)
  return string.find(' ' .. line .. ' ', ' ' .. id .. ' ', 1, true) ~= nil
end

-- What is known of deferred keys, by key. Reads all of them, or only those that are named.
local function deferred_keys(group, names)
  local deferred, rows = {}, {}
  if names then
    for index, value in ipairs(redis.call('HMGET', group.deferred, unpack(names))) do
      rows[#rows + 1] = names[index]
      rows[#rows + 1] = value
    end
  else
    rows = redis.call('HGETALL', group.deferred)
  end
  for at = 1, #rows, 2 do
    if rows[at + 1] then
      local number, passed, drawable = string.match(rows[at + 1], '^(%d+) (%-?%d+) ([01])$')
      deferred[rows[at]] = number and { number = tonumber(number), passed = tonumber(passed), drawable = drawable == '1' }
    end
  end
  return deferred
end

-- Collects what is written, so that it is written in few commands.
local function new_copies()
  return { places = {}, bodies = {}, parked = {}, lines = {}, counts = {}, deferred = {} }
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
  local deferred = {}
  for key, each in pairs(copies.deferred) do
    local value = string.format('%.0f %.0f %d', each.number, each.passed, each.drawable and 1 or 0)
    add(deferred, key, value)
    group.low = math.min(group.low or each.number, each.number)
  end
  if #deferred > 0 then
    set_fields(group.deferred, deferred)
    redis.call('HSET', group.meta, 'low', digits(group.low), 'deferring', group.deferring)
  end
  redis.call('HSET', group.meta, 'position', group.position)
  if copies.ready then
    call_waiter(group.meta, group.label, text_at(awaited_key(group.meta)))
  end
end

local function copy_to_lane(group, copies, event, unique, late, number)
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
    put(message, 'l', unique and number)
    entry = redis.call('XADD', lane, entry, unpack(message))
  end
  note_size(group.meta, 4, entry, #event[6])
  copies.ready = true
  add(copies.places, id, '4' .. entry)
end

local function copy_to_parking(group, copies, event, unique, number)
  local id = event[2]
  local message = { 'i', id, 't', event[4], 'm', event[6], 'u', unique, 'a', event[8] }
  put(message, 'e', get(event, 'e'))
  put(message, 'l', number)
  add(copies.bodies, id, cmsgpack.pack(message))
  add(copies.parked, event[8], id)
  add(copies.places, id, 'K')
  group.parked_now = group.parked_now + 1
end

-- The line of the key of an event that is drawn, and how many are parked in it.
local function line_of(group, copies, lines, key)
  local line = copies.lines[key] or lines[key]
  -- A line of one whose head is gone is free. Behind a longer one it is parked all the same: draw.lua mends it.
  if not copies.lines[key] and line ~= '' and not string.find(line, ' ', 1, true) and not is_held(group, line) then
    line = ''
  end
  copies.counts[key] = copies.counts[key] or parked_in(line)
  return line, copies.counts[key]
end

local function copy_with_key(group, copies, line, key, event, late, number)
  if line == '' then
    copy_to_lane(group, copies, event, 'k' .. key, late, number)
    copies.lines[key] = event[2]
  else
    copy_to_parking(group, copies, event, 'k' .. key, number)
    copies.lines[key] = line .. ' ' .. event[2]
    copies.counts[key] = copies.counts[key] + 1
  end
end

-- An event that the group waits for or runs is handled once more after that, when the group was reset.
local function comes_again(group, line, id, number)
  return number <= group.again and is_in(line, id)
end

local function pass_over(group, copies, deferred, key, number)
  if not deferred[key] then
    deferred[key] = { number = number, passed = 0, drawable = false }
    group.deferring = group.deferring + 1
  end
  deferred[key].passed = deferred[key].passed + 1
  copies.deferred[key] = deferred[key]
end

-- The next event of an ordered group, or of one that has deferred keys.
local function copy_in_order(group, copies, lines, deferred, event, late, number, is_known)
  local key, id = get(event, 'k'), event[2]
  if key and deferred[key] then
    return pass_over(group, copies, deferred, key, number)
  elseif not key or not group.ordered then
    return not is_known and copy_to_lane(group, copies, event, nil, late)
  end
  local line, count = line_of(group, copies, lines, key)
  if is_known then
    if comes_again(group, line, id, number) then
      pass_over(group, copies, deferred, key, number)
    end
    return
  end
  if count == 0 or (count < PARKED_OF_KEY and group.parked_now < PARKED_MOST) then
    copy_with_key(group, copies, line, key, event, late, number)
  else
    pass_over(group, copies, deferred, key, number)
  end
end

-- The lines of the keys of events, and what is known of those that are deferred.
local function lines_and_deferred(group, events, from, to)
  local lines, names = lines_for(group, events, from, to), {}
  if group.low then
    for key in pairs(lines) do
      names[#names + 1] = key
    end
  end
  return lines, #names > 0 and deferred_keys(group, names) or {}
end

-- Takes the events `from` to `to`, whose numbers follow the position, until too many keys are deferred. `fresh`:
-- their ids are new. `late`: they were written a while ago. Answers how many of them are left to take.
local function take_in(group, events, from, to, fresh, late)
  local known = fresh and {} or known_among(group, events, from, to)
  local lines, deferred
  if group.ordered or group.low then
    lines, deferred = lines_and_deferred(group, events, from, to)
  end
  local copies = new_copies()
  group.parked_now = group.parked_now or (group.ordered and redis.call('ZCARD', group.parked) or 0)
  local index = from
  while index <= to and group.deferring < KEYS_DEFERRED_MOST do
    local event = events[index]
    local is_known = known[event[2]]
    if lines then
      copy_in_order(group, copies, lines, deferred, event, late, group.position + index - from + 1, is_known)
    elseif not is_known then
      copy_to_lane(group, copies, event, nil, late)
    end
    known[event[2]] = true
    index = index + 1
  end
  group.position = group.position + index - from
  write_copies(group, copies)
  return to - index + 1
end

local function is_time(text)
  return text and #text < 19 and string.find(text, '^%d+$')
end

-- An event of the log. One that cannot be read has all that is there as body: it is drawn as the others are, and ends
-- in the dead letters of the group.
local function readable_event(number, event)
  if event[1] == 'i' and event[3] == 't' and event[5] == 'm' and event[7] == 'a' and is_time(event[8]) then
    return event
  end
  return { 'i', 'unreadable-' .. number, 't', '', 'm', cmsgpack.pack(event), 'a', '0' }
end

-- Events of the log behind a position, up to the last that was published, and the number of the first. Their sizes are
-- not known before, so it reads a few and then more.
local function read_log(position, last, items, bytes)
  local events, first, piece, largest = {}, nil, 2, 1
  while #events < items and bytes > 0 do
    local count = math.min(piece, items - #events, math.max(1, math.floor(bytes / largest)))
    local rows = redis.call('XRANGE', LOG, position + 1, digits(last), 'COUNT', count)
    for _, row in ipairs(rows) do
      local number = number_of(row[1])
      -- Numbers follow each other. Only another program leaves out some, or writes between two.
      if first and number > position + 1 then
        return events, first
      elseif not first or number > position then
        first, position = first or number, number
        local event = readable_event(number, row[2])
        events[#events + 1] = event
        largest = math.max(largest, #event[6])
        bytes = bytes - #event[6]
      end
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
local function draw(group, last, items, bytes)
  local events, first = read_log(group.position, last, math.min(items, DRAWN_ITEMS), bytes or DRAWN_BYTES)
  if not first then
    group.position = last
    redis.call('HSET', group.meta, 'position', last)
    return 0, false
  end
  group.position = first - 1
  local left = take_in(group, events, 1, #events, false, true)
  return #events - left, left == 0 and group.position < last
end
