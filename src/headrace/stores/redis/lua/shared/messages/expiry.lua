-- Whether a message that waits has expired: no handler has begun with it at its time (`State.begun`).
local function was_begun(message)
  local state = state_in(message)
  if not state then
    return false
  end
  for _, entry in ipairs(state[5]) do
    if type(entry) == 'table' and (entry[2] == 'snoozed' or (tonumber(entry[5]) or 0) > 0) then
      return true
    end
  end
  return state[1] + state[2] > 0
end

local function has_expired(message, now)
  local expiry = tonumber(get(message, 'e') or '')
  return expiry and expiry <= now and not was_begun(message)
end

-- Whether a message at this place waits and has expired; it may run or be dead as well.
local function waits_expired(place, message, now)
  if place == 'D' or not has_expired(message, now) then
    return false
  end
  local lane, entry = entry_at(place)
  return not (lane and holder(lane, entry))
end
