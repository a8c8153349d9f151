-- Draws events of deferred keys that lie before the position of a group.

-- The smallest number from which a key is deferred of which more can be drawn; nil: there is none. `mends`: also of
-- one that no message holds any more, because a stream was deleted by hand.
local function first_drawable(group, deferred, mends)
  local first
  for key, each in pairs(deferred) do
    each.drawable = each.drawable or (mends and redis.call('HEXISTS', group.lines, key) == 0)
    if each.drawable then
      first = math.min(first or each.number, each.number)
    end
  end
  return first
end

-- What is known of the key of an event, if the event is the next of a deferred key, as far as a caller knows that
-- has looked at all events from a start on.
local function due_key(deferred, event, number, start)
  local each = deferred[get(event, 'k') or '']
  return each and start <= each.number and each.number <= number and not each.blocked and each
end

local function meet_again(group, copies, lines, each, event, number, is_known)
  local key, id = get(event, 'k'), event[2]
  local line, count = line_of(group, copies, lines, key)
  local has_room = count < PARKED_AGAIN or (count < PARKED_OF_KEY and group.parked_now < PARKED_MOST)
  each.is_changed = true
  if not has_room or (is_known and comes_again(group, line, id, number)) then
    each.drawable, each.number, each.blocked = false, number, true
    return
  end
  each.number, each.passed = number + 1, each.passed - 1
  if not is_known then
    copy_with_key(group, copies, line, key, event, true, number)
  end
end

-- What is left of the deferred keys after all events up to a number were met. Answers whether there is more to
-- look through.
local function write_deferred(group, deferred, looked)
  local gone, changed, count, low, more = {}, {}, 0, nil, false
  for key, each in pairs(deferred) do
    if each.drawable and each.number <= looked then
      each.number, each.is_changed = looked + 1, true
    end
    if each.passed <= 0 or (each.drawable and each.number > group.position) then
      gone[#gone + 1] = key
    else
      count, low, more = count + 1, math.min(low or each.number, each.number), more or each.drawable
      if each.is_changed then
        add(changed, key, string.format('%.0f %.0f %d', each.number, each.passed, each.drawable and 1 or 0))
      end
    end
  end
  if #changed > 0 then
    set_fields(group.deferred, changed)
  end
  if #gone > 0 then
    redis.call('HDEL', group.deferred, unpack(gone))
  end
  if count > 0 then
    redis.call('HSET', group.meta, 'low', digits(low), 'deferring', count)
  else
    redis.call('HDEL', group.meta, 'low', 'deferring')
  end
  group.low, group.deferring = low, count
  return more
end

-- Looks through at most so many events for those of deferred keys. Answers how many it looked at, and whether there
-- is more to look through.
local function catch_up(group, items, bytes, mends)
  local deferred = deferred_keys(group)
  local start = first_drawable(group, deferred, mends)
  if not start then
    return 0, false
  end
  local events, first = read_log(start - 1, group.position, items, bytes)
  local count = first and math.max(0, math.min(#events, group.position - first + 1)) or 0
  local due = {}
  for index = 1, count do
    if due_key(deferred, events[index], first + index - 1, start) then
      due[#due + 1] = events[index]
    end
  end
  local copies = new_copies()
  if #due > 0 then
    local known, lines = known_among(group, due, 1, #due), lines_for(group, due, 1, #due)
    group.parked_now = redis.call('ZCARD', group.parked)
    for index = 1, count do
      local event, number = events[index], first + index - 1
      local each = due_key(deferred, event, number, start)
      if each then
        meet_again(group, copies, lines, each, event, number, known[event[2]])
        known[event[2]] = true
      end
    end
    write_copies(group, copies)
  end
  local more = write_deferred(group, deferred, count > 0 and first + count - 1 or group.position)
  return math.max(count, 1), more
end
