-- Draws events of deferred keys that lie before the position of a group.

-- The keys of which more can be drawn with their lines, and the smallest number from which one is deferred. `mends`:
-- also those that nobody holds any more, because somebody deleted a stream by hand.
local function hungry_keys(group, deferred, mends)
  local names, first = {}, nil
  for key, each in pairs(deferred) do
    each.hungry = each.hungry or (mends and redis.call('HEXISTS', group.lines, key) == 0)
    if each.hungry then
      names[#names + 1] = key
      first = math.min(first or each.number, each.number)
    end
  end
  local lines = {}
  if #names > 0 then
    for index, line in ipairs(redis.call('HMGET', group.lines, unpack(names))) do
      lines[names[index]] = line or ''
    end
  end
  return lines, first
end

local function is_due(deferred, event, number)
  local each = deferred[get(event, 'k') or '']
  return each and each.hungry and number >= each.number
end

local function meet_again(group, copies, lines, each, event, number, is_known)
  local key, id = get(event, 'k'), event[2]
  local line, count = line_of(group, copies, lines, key)
  if count >= PARKED_AGAIN or (is_known and comes_again(group, line, id, number)) then
    each.hungry, each.number = false, number
    return
  end
  each.number, each.passed = number + 1, each.passed - 1
  if not is_known then
    copy_with_key(group, copies, line, key, event, true, number)
  end
end

-- What is left of the deferred keys after all events up to a number were met.
local function write_deferred(group, deferred, looked)
  local gone, kept, count, low = {}, {}, 0, nil
  for key, each in pairs(deferred) do
    if each.hungry then
      each.number = math.max(each.number, looked + 1)
    end
    if each.passed <= 0 or (each.hungry and each.number > group.position) then
      gone[#gone + 1] = key
    else
      add(kept, key, string.format('%.0f %.0f %d', each.number, each.passed, each.hungry and 1 or 0))
      low = math.min(low or each.number, each.number)
      count = count + 1
    end
  end
  if count > 0 then
    set_fields(group.deferred, kept)
    redis.call('HSET', group.meta, 'low', digits(low), 'deferring', count)
  else
    redis.call('HDEL', group.meta, 'low', 'deferring')
  end
  if #gone > 0 then
    redis.call('HDEL', group.deferred, unpack(gone))
  end
  group.low, group.deferring = low, count
end

-- Looks through at most so many events for those of deferred keys. Answers how many it looked at, and whether there
-- is more to look through.
local function catch_up(group, items, bytes, mends)
  local deferred = deferred_keys(group)
  local lines, start = hungry_keys(group, deferred, mends)
  if not start then
    return 0, false
  end
  local events, first = read_log(start - 1, items, bytes)
  local count = first and math.max(0, math.min(#events, group.position - first + 1)) or 0
  local due = {}
  for index = 1, count do
    if is_due(deferred, events[index], first + index - 1) then
      due[#due + 1] = events[index]
    end
  end
  local known = #due > 0 and known_among(group, due, 1, #due) or {}
  local copies = new_copies()
  group.parked_now = redis.call('ZCARD', group.parked)
  for index = 1, count do
    local event, number = events[index], first + index - 1
    if is_due(deferred, event, number) then
      meet_again(group, copies, lines, deferred[get(event, 'k')], event, number, known[event[2]])
      known[event[2]] = true
    end
  end
  write_copies(group, copies)
  write_deferred(group, deferred, count > 0 and first + count - 1 or group.position)
  for _, each in pairs(deferred) do
    if each.hungry and each.passed > 0 and each.number <= group.position then
      return math.max(count, 1), true
    end
  end
  return math.max(count, 1), false
end
