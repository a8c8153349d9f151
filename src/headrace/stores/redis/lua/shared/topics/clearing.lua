-- Takes out what waits in a group that was reset and is drawn anew behind its position: events with a key that were
-- never handed out. `clearing` of the group says how far that has come: K and a rank among those that are parked,
-- then L and an entry of the lane. A step takes no more than one script may.
local CLEARED_ITEMS, CLEARED_BYTES = 500, 1048576

local function is_drawn_anew(group, id, message)
  local _, flags = place_of(id)
  return flags == ''
    and not get(message, 'o')
    and string.sub(get(message, 'u') or '', 1, 1) == 'k'
    and (tonumber(get(message, 'l') or 0) or 0) > group.position
end

local function clear(id, message)
  redis.call('HDEL', IDS, id)
  hand_on(string.sub(get(message, 'u'), 2), id)
end

local function clear_parked(group, rank)
  local bytes = CLEARED_BYTES
  local ids = redis.call('ZRANGE', PARKED, rank, rank + CLEARED_ITEMS - 1)
  for _, id in ipairs(ids) do
    if bytes <= 0 then
      return 'K' .. rank
    end
    local packed = redis.call('HGET', MESSAGES, id)
    local message = packed and unpacked(id, packed)
    bytes = bytes - (packed and #packed or 0)
    if message and is_drawn_anew(group, id, message) then
      unpark(id, 'K')
      clear(id, message)
    else
      rank = rank + 1
    end
  end
  return #ids < CLEARED_ITEMS and 'L0-0' or 'K' .. rank
end

local function is_later(entry, other)
  local time, number = string.match(entry, '^(%d+)-(%d+)$')
  local other_time, other_number = string.match(other, '^(%d+)-(%d+)$')
  time, other_time = tonumber(time), tonumber(other_time)
  return time > other_time or (time == other_time and tonumber(number) > tonumber(other_number))
end

local function clear_lane(group, after)
  local given = group_of(4) or '0-0'
  after = is_later(given, after) and given or after
  local items, bytes, largest = CLEARED_ITEMS, CLEARED_BYTES, CLEARED_BYTES
  while items > 0 and bytes > 0 do
    local fit = math.min(items, 10, math.max(1, math.floor(bytes / largest)))
    local rows = redis.call('XRANGE', KEYS[4], '(' .. after, '+', 'COUNT', fit)
    for _, row in ipairs(rows) do
      local id, message = get(row[2], 'i'), row[2]
      local size = #(get(message, 'm') or '')
      largest = math.max(items == CLEARED_ITEMS and 1 or largest, size)
      items, bytes, after = items - 1, bytes - size, row[1]
      if is_drawn_anew(group, id, message) then
        redis.call('XDEL', KEYS[4], row[1])
        clear(id, message)
      end
    end
    if #rows < fit then
      return nil
    end
  end
  return 'L' .. after
end

-- One step; answers whether it is over.
local function clear_step(group)
  local stage, place = string.sub(group.clearing, 1, 1), string.sub(group.clearing, 2)
  if stage == 'K' then
    group.clearing = clear_parked(group, tonumber(place))
  else
    group.clearing = clear_lane(group, place) or false
  end
  if group.clearing then
    redis.call('HSET', META, 'clearing', group.clearing)
  else
    redis.call('HDEL', META, 'clearing')
  end
  return not group.clearing
end
