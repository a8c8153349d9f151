-- What follows from the end of a message.

-- A unique key holds '<until> <id>'; until is 0 when it is held until it is released. The key of an event goes
-- to the next one.
local function release(unique, id)
  local ordered = ordered_key(unique)
  if ordered then
    hand_on(ordered, id)
  elseif unique and string.sub(unique, 1, 1) ~= 'e' then
    local key = UNIQUE .. string.sub(unique, 2)
    if text_at(key) == '0 ' .. id then
      redis.call('DEL', key)
    end
  end
end

local function wake(id, flags)
  if string.find(flags, 'w', 1, true) then
    local channels = redis.call('HGET', WAITERS, id)
    redis.call('HDEL', WAITERS, id)
    for channel in string.gmatch(channels or '', '%S+') do
      redis.call('PUBLISH', channel, LABEL .. ' ' .. id)
    end
  end
end

-- Cancellation and progress are kept beside the message.
local function forget_asides(id, flags)
  if string.find(flags, 'c', 1, true) then
    redis.call('HDEL', CANCEL, id)
  end
  if string.find(flags, 'p', 1, true) then
    redis.call('HDEL', PROGRESS, id)
  end
end

-- The content of an end record: 'status length-of-task length-of-note length-of-state 1-or-0 ', then task, note, state,
-- and the value if there is one. (verbs/settle.py makes the content of a success.)
local function end_record(status, task, state)
  task, state = task or '', state or ''
  return status .. ' ' .. #task .. ' 0 ' .. #state .. ' 0 ' .. task .. state
end

-- An end record stays for `ttl` microseconds; 0: none is written. It holds '<ended> <until> <content>': the time in it
-- hides it when a test moves the clock.
local function write_end_record(id, now, ttl, content)
  if ttl > 0 then
    local value = digits(now) .. ' ' .. digits(now + ttl) .. ' ' .. content
    redis.call('SET', END_RECORD .. id, value, 'PX', math.ceil(ttl / 1000))
  end
end

-- The message has left its place: only an end record remains of it.
local function finish(id, flags, unique, ttl, content)
  redis.call('HDEL', IDS, id)
  forget_asides(id, flags)
  release(unique, id)
  write_end_record(id, clock(), ttl, content)
  wake(id, flags)
end

local function finish_cancelled(id, flags, message, ttl)
  finish(id, flags, get(message, 'u'), ttl, end_record('cancelled', get(message, 't'), get(message, 's')))
end

local function bury(id, flags, message, state, reason, failure)
  put(message, 's', state)
  put(message, 'r', reason)
  put(message, 'f', failure)
  redis.call('ZADD', DEAD, digits(clock()), id)
  redis.call('HSET', MESSAGES, id, cmsgpack.pack(message))
  set_place(id, 'D', '')
  forget_asides(id, flags)
  release(get(message, 'u'), id)
  wake(id, flags)
end

-- How long the end record of a message stays whose cancellation was requested; nil: it was not requested.
local function cancelled_for(id, flags)
  if string.find(flags, 'c', 1, true) then
    return tonumber(redis.call('HGET', CANCEL, id) or 0)
  end
end
