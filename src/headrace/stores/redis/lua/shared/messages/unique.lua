-- The holder of a unique key. A key holds '<until> <id>'; until is 0 when it is held until it is released, which is as
-- long as its message waits or runs.
local function message_with(id, key)
  local place, flags = place_of(id)
  local message = place and place ~= 'D' and message_at(place, id)
  if message then
    return place, flags, message, string.sub(get(message, 'u') or '', 2) == key
  end
end

-- The id; or nil, and the owner that has expired over it, if that is why: {id, place, flags, message}. `fresh`: ids
-- that have no place yet.
local function holder_of(key, now, fresh)
  local value = text_at(UNIQUE .. key)
  if not value then
    return nil
  end
  local expiry, id = string.match(value, '^(%d+) (.*)$')
  if not expiry or (expiry ~= '0' and tonumber(expiry) <= now) then
    return nil
  elseif fresh and fresh[id] then
    return id
  end
  local place, flags, message, own = message_with(id, key)
  if own and waits_expired(place, message, now) then
    return nil, { id, place, flags, message }
  end
  return (expiry ~= '0' or message) and id or nil
end

-- Ends an owner that has expired, with an end record for so long. The caller has written something before this.
local function end_owner(owner, ttl)
  local id, place, flags, message = unpack(owner)
  local lane, entry = entry_at(place)
  if lane then
    redis.call('XDEL', lane_key(lane), entry)
  else
    unpark(id, place)
  end
  finish_expired(id, flags, get(message, 'u'), ttl, get(message, 't'), get(message, 's'))
end
