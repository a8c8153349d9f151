-- The keys that a topic shares with its groups; nil of a queue. Of a topic META is its own. scripts.py puts the
-- bounds of core/topics/topic.py in front of every script.
local LOG, GROUPS, TOPIC, GROUP_PREFIX = KEYS[21], KEYS[22], KEYS[23], KEYS[24]

-- Whether the topic has parts, which take its place: nothing is joined or written here.
local function is_sealed()
  return redis.call('HGET', TOPIC, 'sealed') == '1'
end

-- Notes that a member of the group with this hash was seen, and whether it wants order ('1', '0', or '': it is no
-- member). Answers whether the group is ordered, and whether live members disagree about it.
local function note_member(meta, wants_order, now)
  local known = redis.call('HMGET', meta, 'ordered', 'wanted', 'unwanted', 'seen')
  local ordered = known[1] == '1'
  local wanted = tonumber(known[2] or (ordered and known[4]) or 0) or 0
  local unwanted = tonumber(known[3] or 0) or 0
  if wants_order == '1' then
    ordered, wanted = true, now
  elseif wants_order == '0' then
    ordered, unwanted = ordered and wanted + ORDER_HELD_FOR > now, now
  end
  redis.call('HDEL', meta, 'wanted') -- a removal first: it is not refused when memory is short
  local times = { 'wanted', digits(wanted), 'unwanted', digits(unwanted) }
  redis.call('HSET', meta, 'ordered', ordered and 1 or 0, unpack(times))
  return ordered, ordered and math.min(wanted, unwanted) + ORDER_HELD_FOR > now
end

local function number_of(entry)
  return tonumber(string.match(entry, '^%d+'))
end

-- An event of the log is a list as a message is: i id · t task · m body · a when it was written (always in this
-- order) · k key · e expiry.
local function written_at(event)
  return tonumber(string.match(event[8] or '', '^%d+$') or 0) -- another program may have written anything
end

-- The number of the last event, as the log itself says it.
local function last_in_log()
  local stream = redis.pcall('XINFO', 'STREAM', LOG)
  for at = 1, #stream, 2 do
    if stream[at] == 'last-generated-id' then
      return number_of(stream[at + 1])
    end
  end
  return 0
end

-- The number of the last event that was ever written. The log says it, too, but with two bodies.
local function last_number(known)
  return tonumber(known or '') or last_in_log()
end

-- The first event from a number on, and its number; nil: there is none.
local function event_from(number)
  local row = redis.call('XRANGE', LOG, number, '+', 'COUNT', 1)[1]
  if row then
    return row[2], number_of(row[1])
  end
end

-- The number of the first event among `first` to `last` that was written at that time or later; `last` + 1 when
-- there is none. Numbers have no gaps, so it halves them.
local function first_since(time, first, last)
  local low, high = first, last + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    local event = event_from(middle)
    if event and written_at(event) < time then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- The position from which one goes on to get what a start means.
local function position_of(start, value, last)
  if start == 'new' then
    return last
  elseif start == 'position' then
    return value
  end
  local _, first = event_from(1)
  first = first or last + 1
  return (start == 'beginning' and first or first_since(value, first, last)) - 1
end
