-- Mends what was deleted by hand, or done by an older version that knows neither lines nor order keys.
local SCANNED = 500

-- Whether pages of a move still come (see import_page.lua).
local function is_importing()
  local meta = redis.call('HGETALL', META)
  for at = 1, #meta, 2 do
    if string.sub(meta[at], 1, 7) == 'import ' and not string.find(meta[at + 1], ' end$') then
      return true
    end
  end
  return false
end

-- A message that was deleted by hand, or that an older version has ended, would hold its key for ever. (In an import, a
-- holder may come after those that are parked behind it.)
local function mend_keys(now)
  if is_importing() then
    return
  end
  local count = redis.call('ZCARD', PREFIX .. 'parked')
  local first = count > 20 and now % count or 0
  for _, id in ipairs(redis.call('ZRANGE', PREFIX .. 'parked', first, first + 19)) do
    local key = redis.call('HGET', KEY_HOLDERS, 'i' .. id)
    local owner = key and redis.call('HGET', KEY_HOLDERS, 'k' .. key)
    local place = owner and place_of(owner)
    if key and (not place or place == 'D' or not message_at(place, owner)) then
      if owner then
        redis.call('HDEL', KEY_HOLDERS, 'i' .. owner)
      end
      let_next_of(key)
    end
  end
end

-- Entries of what is handed out, or the whole lane, were deleted by hand: their slots come back. Then `:msg` holds more
-- than what waits, is over or is in that lane. A step looks at some of it.
local function mend_held()
  local count = redis.call('HLEN', MESSAGES) - redis.call('XLEN', lane_key(HELD))
  for _, place in ipairs({ 'S', 'R', 'D', 'K', 'L' }) do
    count = count - redis.call('ZCARD', agenda_of(place))
  end
  if count <= 0 then
    return
  end
  local found = redis.call('HSCAN', MESSAGES, redis.call('HGET', META, 'scanned') or '0', 'COUNT', SCANNED)
  redis.call('HSET', META, 'scanned', found[1])
  for at = 1, #found[2], 2 do
    local id = found[2][at]
    local place = place_of(id)
    if place and string.sub(place, 1, 1) == HELD and not message_at(place, id) then
      release_held(id, false)
    end
  end
end

-- An older version forgets which lanes have lines.
local function mend_lanes()
  local used = redis.call('HGET', META, 'lanes') or ''
  if not string.find(used, '[a-j]') and redis.call('EXISTS', PREFIX .. 'lined') == 1 then
    for lane = 0, 9 do
      note_lane(letter_of(lane))
    end
  end
  if redis.call('XLEN', lane_key(HELD)) > 0 then
    note_lane(HELD)
  end
end

local function mend(now)
  if LINES or is_mended(now) then
    return
  end
  redis.call('HDEL', META, 'mended') -- a removal first: it is not refused when memory is short
  redis.call('HSET', META, 'mended', digits(now))
  mend_lanes()
  mend_held()
  mend_keys(now)
end
