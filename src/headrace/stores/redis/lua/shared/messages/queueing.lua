-- Puts messages into lanes and onto the agenda.
local function lane_of_kind(message, returned)
  local state = state_in(message)
  if state and state[2] >= SUSPECT_FROM then
    return SUSPECT
  elseif returned then
    return RETURNED
  end
  local priority = get(message, 'p')
  return HIGH + (priority == '0' and 0 or priority == '2' and 2 or 1)
end

local function lane_of(message, returned)
  local lane = lane_of_kind(message, returned)
  return get(message, 'c') and child_lane_of(lane) or lane
end

-- Something has come into a lane: claims read it from now on, also those that wait.
local noted = { [4] = true }
local function note_lane(lane)
  if noted[lane] then
    return
  end
  noted[lane] = true
  local used = redis.call('HGET', META, 'lanes') or ''
  if not string.find(used, lane, 1, true) then
    redis.call('HSET', META, 'lanes', used .. lane)
    redis.call('PUBLISH', NOTICES, 'lane ' .. LABEL .. ' ' .. used .. lane)
  end
end

-- The id for an entry: the server makes it, from its clock. Where a test has moved time it is made here.
local function next_entry_of(key)
  if OFFSET == 0 then
    return '*'
  end
  local now = math.floor(clock() / 1000)
  local last, number = 0, 0
  local stream = redis.pcall('XINFO', 'STREAM', key)
  for at = 1, #stream, 2 do
    if stream[at] == 'last-generated-id' then
      last, number = string.match(stream[at + 1], '^(%d+)-(%d+)$')
    end
  end
  if tonumber(last) >= now then
    return last .. '-' .. (number + 1)
  end
  return digits(now) .. '-0'
end

local function next_entry(lane)
  return next_entry_of(lane_key(lane))
end

-- A claim must know how large messages can be before it reads them. So `large` in `:meta` names for each lane
-- the last entries that are not small: 'l<lane>c<class>:<entry> ' for each class. What is small has at most SMALL bytes,
-- and the bound of each class is four times that of the one before.
local SMALL = 4096

local function note_size(meta, lane, entry, size)
  if size <= SMALL then
    return
  end
  local class = math.ceil(math.log(size / SMALL) / math.log(4))
  local place = 'l' .. lane .. 'c' .. class .. ':'
  local others = string.gsub(redis.call('HGET', meta, 'large') or '', place .. '%S+ ', '')
  redis.call('HSET', meta, 'large', others .. place .. entry .. ' ')
end

local function size_of(message)
  return #(get(message, 'm') or '') + #(get(message, 's') or '')
end

-- A consumer that found a stream empty and does not block has left its name for a while, and is notified.
local function awaited_key(meta)
  return string.sub(meta, 1, -5) .. 'awaited'
end

local function call_waiter(meta, label, name)
  if name then
    redis.call('DEL', awaited_key(meta))
    redis.call('PUBLISH', NOTICES, 'ready ' .. label .. ' ' .. name)
  end
end

local is_called = false
local function call_once()
  if not is_called then
    is_called = true
    call_waiter(META, LABEL, text_at(awaited_key(META)))
  end
end

local function enqueue(id, flags, message, returned)
  local lane = lane_of(message, returned)
  local entry = redis.call('XADD', lane_key(lane), next_entry(lane), unpack(message))
  note_size(META, lane, entry, size_of(message))
  note_lane(lane)
  call_once()
  set_place(id, lane .. entry, flags)
end

local function park(id, flags, message, place, due)
  redis.call('ZADD', agenda_of(place), digits(due), id)
  redis.call('HSET', MESSAGES, id, cmsgpack.pack(message))
  set_place(id, place, flags)
end

local function announce_if_sooner(before, due)
  if due and (not before or due < before) then
    redis.call('PUBLISH', NOTICES, 'due ' .. LABEL)
  end
end

-- Takes a parked message off its agenda; the caller sets its new place.
local function unpark(id, place)
  redis.call('ZREM', agenda_of(place), id)
  redis.call('HDEL', MESSAGES, id)
end
