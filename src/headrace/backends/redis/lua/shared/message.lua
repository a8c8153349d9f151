-- A message is a flat list of fields and their values, the same in an entry of a lane and (packed) in `:msg`:
--   i id · t task · m body, always; p priority (when not normal) · c 1: child work · e expiry · u unique key with
--   its kind in front · o origin (its first place in a lane) · s state; of a dead one also r reason · f failure; of
--   an event that was drawn late a when it was written · in an ordered group also l its number in the log
-- Kinds of unique keys: f until it is finished, s until it is started, e for a time, k the key of an event in an
-- ordered group (see ordering.lua).
local function get(message, name)
  for at = 1, #message, 2 do
    if message[at] == name then
      return message[at + 1]
    end
  end
  return nil
end

-- Sets a field, or removes it when there is no value.
local function put(message, name, value)
  for at = 1, #message, 2 do
    if message[at] == name then
      if value then
        message[at + 1] = value
      else
        table.remove(message, at)
        table.remove(message, at)
      end
      return
    end
  end
  if value then
    message[#message + 1] = name
    message[#message + 1] = value
  end
end
