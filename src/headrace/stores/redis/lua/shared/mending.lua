-- Mends what was deleted by hand, or done by an older version that knows neither lines nor order keys. (A block, since
-- a script may have 200 names.)
local mend
do
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

  -- The place in a line of a message that has lost it: before all that come later, and in the order of their times.
  local function place_since(time)
    return digits(math.floor(time / 20) - 2 ^ 47)
  end

  -- Whether `:msg` is looked through because lines or order keys were damaged, see healing.lua.
  local function is_made_anew(cursor)
    local anew = redis.call('HGET', META, 'anew')
    if anew == '1' then
      redis.call('HSET', META, 'anew', '2', 'scanned', '0')
    end
    return anew, anew == '1' and '0' or cursor
  end

  local function is_open(letter, constraints)
    local open, tenant = PREFIX .. 'open/' .. letter, constraints_in(constraints).tenant
    return redis.call('ZSCORE', open .. '/' .. tenant, constraints) and redis.call('ZSCORE', open, tenant)
  end

  local function put_back_in_line(id, letter, message, now, opened)
    local constraints = get(message, 'g') or ''
    local line = letter .. constraints
    redis.call('ZADD', PREFIX .. 'lined', 'NX', digits(now), id)
    local since = redis.call('ZSCORE', PREFIX .. 'lined', id)
    redis.call('ZADD', PREFIX .. 'line/' .. line, 'NX', place_since(since), id)
    if not (opened[line] or redis.call('HGET', PREFIX .. 'blocked', line) or is_open(letter, constraints)) then
      note_lane(letter)
      open_line(PREFIX, line)
    end
    opened[line] = true
  end

  -- What waits for its key goes behind it again. What has begun to wait in a line, or runs, has its key.
  local function put_back_in_order(id, place, key, now)
    redis.call('HSETNX', KEY_HOLDERS, 'i' .. id, key)
    if place == 'K' then
      redis.call('ZADD', PREFIX .. 'parked', 'NX', digits(now), id)
      local since = redis.call('ZSCORE', PREFIX .. 'parked', id)
      redis.call('ZADD', PREFIX .. 'parked/' .. key, 'NX', place_since(since), id)
    else
      redis.call('HSETNX', KEY_HOLDERS, 'k' .. key, id)
    end
  end

  local function put_back(id, place, packed, now, opened)
    local message = unpacked(id, packed)
    local key = get(message, 'k')
    if key and not string.find(place, '^[SD]') then
      put_back_in_order(id, place, key, now)
    end
    if string.find(place, '^[a-j]') then
      put_back_in_line(id, string.sub(place, 1, 1), message, now, opened)
    end
  end

  -- Entries of what is handed out, or the whole lane, were deleted by hand: their slots come back. Then `:msg` holds more
  -- than what waits, is over or is in that lane. A step looks at some of it.
  local function mend_held(now)
    local count = redis.call('HLEN', MESSAGES) - redis.call('XLEN', lane_key(HELD))
    for _, place in ipairs({ 'S', 'R', 'D', 'K', 'L' }) do
      count = count - redis.call('ZCARD', agenda_of(place))
    end
    local anew, cursor = is_made_anew(redis.call('HGET', META, 'scanned') or '0')
    if count <= 0 and not anew then
      return
    end
    local found, opened = redis.call('HSCAN', MESSAGES, cursor, 'COUNT', SCANNED), {}
    redis.call('HSET', META, 'scanned', found[1])
    for at = 1, #found[2], 2 do
      local id = found[2][at]
      local place = place_of(id)
      if place and string.sub(place, 1, 1) == HELD and not message_at(place, id) then
        release_held(id, false)
      elseif place and anew then
        put_back(id, place, found[2][at + 1], now, opened)
      end
    end
    if anew and found[1] == '0' then
      redis.call('HDEL', META, 'anew')
    end
  end

  -- A line that is neither open nor blocked would wait for ever.
  local LINED_MOST = 10
  local function mend_lined(now)
    local count, opened = redis.call('ZCARD', PREFIX .. 'lined'), {}
    local first = count > LINED_MOST and now % count or 0
    for _, id in ipairs(redis.call('ZRANGE', PREFIX .. 'lined', first, first + LINED_MOST - 1)) do
      local place = place_of(id)
      local packed = place and redis.call('HGET', MESSAGES, id)
      if packed then
        put_back(id, place, packed, now, opened)
      end
    end
  end

  -- A limit was deleted by hand, or the list of the lines that wait for it lacks a line: such a line asks again.
  local BLOCKED_MOST = 20
  local function mend_blocked(now)
    local blocked = PREFIX .. 'blocked'
    local found = redis.call('HSCAN', blocked, redis.call('HGET', META, 'offered') or '0', 'COUNT', BLOCKED_MOST)
    if #found[2] == 0 and found[1] == '0' then
      return
    end
    redis.call('HSET', META, 'offered', found[1])
    local offered = {}
    for at = 1, #found[2], 2 do
      local line, budget = found[2][at], found[2][at + 1]
      local limit = string.find(budget, '/', 1, true) and limit_of(budget)
      local lines = LIMITS .. 'blocked/' .. budget .. '/' .. PREFIX
      if not limit or not redis.call('ZSCORE', lines, line)
        or not redis.call('ZSCORE', LIMITS .. 'streams/' .. budget, PREFIX) then
        open_line(PREFIX, line)
      elseif not offered[budget] then
        offered[budget] = true
        offer(limit, now)
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

  mend = function(now)
    if LINES or is_mended(now) then
      return
    end
    redis.call('HDEL', META, 'mended') -- a removal first: it is not refused when memory is short
    redis.call('HSET', META, 'mended', digits(now))
    mend_lanes()
    mend_held(now)
    mend_lined(now)
    mend_blocked(now)
    mend_keys(now)
  end
end
