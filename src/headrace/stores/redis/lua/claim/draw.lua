-- Draws events for a group from the log of its topic, as many as are wanted beyond those that lie in its lane, and
-- some more. A group that was lost comes back at the beginning; one that was removed does not.
--
-- requires: queue message place queueing counting ordering topic drawing catching_up clearing
-- keys:     those of the group
-- args:     how many are wanted · 1, 0 or empty: the member wants order, if it comes back · milliseconds for which a
--           member waits if there is nothing · 1 or 0: look for keys that no message holds any more
-- answers:  1 when the group is there, 2 when it came back, 0 when it was removed · how many events were taken
--           from the log · 1 when there are more
local wanted = tonumber(ARGV[5])
local group = own_group()
local last = last_number(redis.call('HGET', TOPIC, 'last'))

local function come_back()
  local name = string.match(LABEL, '/(.*)$')
  if redis.call('HGET', GROUPS, name) == '0' then
    return false
  end
  redis.call('HSET', META, 'position', 0)
  redis.call('HSET', GROUPS, name, 1)
  group.position, group.ordered = 0, note_member(META, ARGV[6], clock())
  return true
end

-- A message that was deleted by hand with its stream would hold its key for ever.
local function free_keys(now)
  local count = redis.call('ZCARD', PARKED)
  local first = count > 20 and now % count or 0
  for _, id in ipairs(redis.call('ZRANGE', PARKED, first, first + 19)) do
    local packed = redis.call('HGET', MESSAGES, id)
    local message = packed and unpacked(id, packed)
    local key = message and ordered_key(get(message, 'u'))
    local line = key and redis.call('HGET', LINES, key)
    if message and not key then
      enqueue(id, '', message) -- it cannot be read
      unpark(id, 'K')
    elseif not message then
      unpark(id, 'K')
    elseif not line or not is_held(group, line) then
      let_next_in(key, line and select(2, cut(line)) or id)
    end
  end
end

local presence = group.position and 1 or come_back() and 2 or 0
if presence == 0 then
  return { 0, 0, 0 }
end
if group.ordered and ARGV[8] == '1' then
  free_keys(clock())
end
if group.clearing then
  clear_step(group)
  return { presence, 1, 1 }
end
if group.position > last and not group.paused then -- a move pauses a group until the log has come, too
  begin_anew(group)
end
if group.position == last and ARGV[7] ~= '0' then
  redis.call('HSET', META, 'awaited', digits(clock() - OFFSET + ARGV[7] * 1000))
end
if (group.position >= last and not group.low) or group.paused then
  return { presence, 0, 0 }
end
local ahead = drawn_ahead(group)
if ahead >= wanted then
  return { presence, 0, 1 } -- others may take those before the caller
end
local items, bytes = DRAWN_ITEMS, DRAWN_BYTES
local caught, further, drawn, more = 0, false, 0, false
if group.low then
  items, bytes = items / 2, bytes / 2
  caught, further = catch_up(group, items, bytes, ARGV[8] == '1')
end
if group.position < last and group.deferring < KEYS_DEFERRED_MOST then
  drawn, more = draw(group, last, math.min(math.max(wanted, DRAWN_AHEAD) - ahead, items), bytes)
end
return { presence, caught + drawn, (further or more) and 1 or 0 }
