-- Ends messages that wait although their time has passed.

-- It has left its place. It gives up its unique key also when that is held for a time.
local function finish_expired(id, flags, unique, ttl, task, state)
  if unique and string.sub(unique, 1, 1) == 'e' then
    local key = UNIQUE .. string.sub(unique, 2)
    if string.match(text_at(key) or '', '^%d+ (.*)$') == id then
      redis.call('DEL', key)
    end
  end
  finish(id, flags, unique, ttl, end_record('expired', task, state))
end

-- One that waited and was taken out of there: cancelled, if it had not expired before.
local function finish_waiting(id, flags, message, ttl)
  if has_expired(message, clock()) then
    finish_expired(id, flags, get(message, 'u'), ttl, get(message, 't'), get(message, 's'))
  else
    finish_cancelled(id, flags, message, ttl)
  end
end
