-- A message as a row for people: id · status · time (claimed, due, died or expired, else 0) · worker · message · of a
-- running one its report (see `report_of` in place.lua); of one in a line the limit that it waits for, after an empty
-- report; of one that is parked `ORDER_KEY` of core/records/record.py.
-- An end record as a row: id · status · time of its end · empty · {t, task, n, note}, {s, state} and {v, value} if
-- there is one.

-- The holder of an entry, and the millisecond at which it was claimed or last renewed. The server tells how long
-- ago that was, so the clock must not have moved on in between.
local function holder_since(lane, entry)
  for _ = 1, 5 do
    local before = math.floor((clock() - OFFSET) / 1000)
    local row = holder(lane, entry)
    if not row or math.floor((clock() - OFFSET) / 1000) == before then
      return row, row and before - row[3]
    end
  end
  local row = holder(lane, entry)
  return row, row and math.floor((clock() - OFFSET) / 1000) - row[3]
end

local function row_of(id, place, message)
  local lane, entry = entry_at(place)
  if waits_expired(place, message, clock()) then
    return { id, 'expired', digits(tonumber(get(message, 'e'))), '', message }
  end
  if not lane then
    if place == 'K' then
      return { id, 'queued', '0', '', message, '', 'order key' }
    elseif place == 'L' or string.find(place, '^[a-j]$') then
      local line = string.match(place == 'L' and place_of(id) or place, '^[a-j]') or ''
      local blocked = string.sub(META, 1, -5) .. 'blocked'
      local budget = redis.pcall('HGET', blocked, line .. (get(message, 'g') or ''))
      return { id, 'queued', '0', '', message, '', string.match(type(budget) == 'string' and budget or '', '^[^/]*') }
    end
    local status = place == 'S' and 'scheduled' or place == 'R' and 'retrying' or 'dead'
    return { id, status, redis.call('ZSCORE', agenda_of(place), id) or '0', '', message }
  end
  local row, since = holder_since(lane, entry)
  if not row then
    return { id, 'queued', '0', '', message }
  end
  -- See renew.lua for what the count holds.
  local claimed = row[4] > 1000000000 and row[4] or since
  return { id, 'running', digits(claimed * 1000 + OFFSET), row[2], message, report_of(id, place) }
end

local function row_of_end_record(id, now)
  local value = text_at(END_RECORD .. id)
  if not value then
    return nil
  end
  local ended, expiry, content = string.match(value, '^(%d+) (%d+) (.*)$')
  if not ended or tonumber(expiry) <= now then
    return nil -- its time has passed, or it is no end record
  end
  local status, task_length, note_length, state_length, has_value, rest =
    string.match(content, '^(%a+) (%d+) (%d+) (%d+) ([01]) (.*)$')
  if not status then
    return nil
  end
  local note = 1 + task_length
  local state = note + note_length
  local value_at = state + state_length
  local fields = { 't', string.sub(rest, 1, task_length), 'n', string.sub(rest, note, state - 1) }
  if value_at > state then
    fields[#fields + 1] = 's'
    fields[#fields + 1] = string.sub(rest, state, value_at - 1)
  end
  if has_value == '1' then
    fields[#fields + 1] = 'v'
    fields[#fields + 1] = string.sub(rest, value_at)
  end
  return { id, status, ended, '', fields }
end

-- All that is known of an id; nil: nothing.
local function row_of_id(id, now)
  local place = place_of(id)
  if place then
    local message = message_at(place, id)
    if message then
      return row_of(id, place, message)
    end
    redis.pcall('HDEL', IDS, id) -- a user that may only read leaves it there
  end
  return row_of_end_record(id, now)
end
