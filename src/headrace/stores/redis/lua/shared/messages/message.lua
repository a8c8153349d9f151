-- A message is a flat list of fields and their values, the same in an entry of a lane and (packed) in `:msg`:
--   i id · t task · m body, always; p priority (when not normal) · c 1: child work · e expiry · u unique key with
--   its kind in front · o origin (its first place in a lane) · s state; of a dead one also r reason · f failure; of
--   an event that was drawn late a when it was written · in an ordered group also l its number in the log · g
--   constraints · k order key
-- Kinds of unique keys: f until it is finished, s until it is started, e for a time, k the key of an event in an
-- ordered group (see ordering.lua).

-- Another program may have written more. `unpack` takes a few thousand words at most.
local WORDS_MOST = 100

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

-- Anyone may have written anything in the place of a message, and a script that fails would fail for all others, too.
local function is_message(id, message)
  if type(message) ~= 'table' or #message % 2 == 1 or #message > WORDS_MOST then
    return false
  end
  for at, word in ipairs(message) do
    -- The number in the log is packed as one.
    if type(word) ~= 'string' and not (at % 2 == 0 and message[at - 1] == 'l' and type(word) == 'number') then
      return false
    end
  end
  return get(message, 'i') == id and get(message, 't') and get(message, 'm')
end

-- A message of a line as it is stored. One with nothing but constraints has a form of its own, which workers read as
-- it is: 's<id>', task, constraints and body, with a zero byte between.
local function packed_for_line(message)
  if #message == 8 and message[7] == 'g' and not string.find(message[2] .. message[4] .. message[8], '%z') then
    return 's' .. message[2] .. '\0' .. message[4] .. '\0' .. message[8] .. '\0' .. message[6]
  end
  return cmsgpack.pack(message)
end

-- A packed message. One that cannot be read has its bytes as body: so it goes the way of all others, and ends in the
-- dead letters when it is claimed.
local function unpacked(id, packed)
  local own, task, constraints, body = string.match(packed, '^s([^%z]*)%z([^%z]*)%z([^%z]*)%z(.*)$')
  if own == id then
    return { 'i', id, 't', task, 'm', body, 'g', constraints }
  end
  local is_read, message = pcall(cmsgpack.unpack, packed)
  if is_read and is_message(id, message) then
    return message
  end
  local failure = cmsgpack.pack({ 'undecodable', 'what is stored of the message cannot be read', '' })
  return { 'i', id, 't', '', 'm', packed, 'r', 'undecodable', 'f', failure }
end

-- A message that is handed out, as a worker reads it. (It finds out when another program has written something else.)
local function answered(id, packed)
  return string.byte(packed) == 115 and packed or unpacked(id, packed)
end

-- An entry of a lane, without the words that no message has.
local function shortened(message)
  for at = #message, WORDS_MOST + 1, -1 do
    message[at] = nil
  end
  return message
end

-- The id of a message in a lane. An entry that another program wrote has none: its place is its id.
local function id_of(lane, entry, message)
  local id = get(message, 'i')
  return id and id ~= '' and id or 'unreadable-' .. lane .. entry
end

-- What a message went through, as `State` in core/messages/message.py; nil: nothing yet, or it cannot be read.
local function state_in(message)
  local packed = get(message, 's')
  if not packed then
    return nil
  end
  local is_read, state = pcall(cmsgpack.unpack, packed)
  local is_state = is_read and type(state) == 'table' and type(state[1]) == 'number' and type(state[2]) == 'number'
  return is_state and type(state[5]) == 'table' and state or nil
end
