-- Writes a page of a stream of another store, if the import has come as far as the page begins. Looks for conflicts
-- before it writes anything.
--
-- requires: queue message place queueing topic ordering ending healing limits lines
-- keys:     those of the stream
-- args:     the move · the place where the page begins · how many messages are counted then and the place where the
--           next page begins, with a blank between · then parts:
--             L: nothing follows: the topic has no events yet
--             Y: layout, or empty: the stream has still this one
--             M: place, a lane's number, S, R, D or K · time · its key in an ordered group, or its order key, or empty ·
--                1: it holds that key · number of words · the words
--             U: unique key · id: the message holds the key
--             C: number of words · the words of a command, which begins with a key of the stream after its name
-- answers:  1, 0: the page was taken before, or an error: CONFLICT and why
local MOVE, AFTER, REACHED, FIRST = ARGV[5], ARGV[6], ARGV[7], 8
local IMPORT = 'import ' .. MOVE -- each move has its own: several stores may move to this one
local now = clock()

-- A move that is not known here has not begun.
local place = string.match(redis.call('HGET', META, IMPORT) or '', '^%d+ (.*)$') or ''
if place ~= AFTER then
  return 0
end

local function conflict(what)
  return redis.error_reply('CONFLICT ' .. what)
end

local function held_by(key)
  local expiry, id = string.match(text_at(UNIQUE .. key) or '', '^(%d+) (.*)$')
  return expiry and (expiry == '0' or tonumber(expiry) > now) and id
end

local checks = {
  L = function(at)
    if (tonumber(redis.call('HGET', TOPIC, 'last') or 0) or 0) > 0 or redis.call('XLEN', LOG) > 0 then
      return at + 1, 'has events already'
    end
    return at + 1
  end,
  Y = function(at)
    local layout = redis.call('HGET', META, 'layout') or ''
    return at + 2, layout ~= ARGV[at + 1] and 'was split in the meantime'
  end,
  M = function(at)
    local count = tonumber(ARGV[at + 5])
    local id = ARGV[at + 7] -- the first field is the id
    local is_known = redis.call('HEXISTS', IDS, id) == 1
    return at + 6 + count, is_known and 'has a message with the id ' .. id .. ' already'
  end,
  U = function(at)
    local holder = held_by(ARGV[at + 1])
    local is_held = holder and holder ~= ARGV[at + 2]
    return at + 3, is_held and 'has another message that holds the unique key of ' .. ARGV[at + 2]
  end,
  C = function(at)
    return at + 2 + tonumber(ARGV[at + 1])
  end,
}

local at = FIRST
while at <= #ARGV do
  local following, problem = checks[ARGV[at]](at)
  if problem then
    return conflict(problem)
  end
  at = following
end

local soonest

-- The line of a key: the holder, and those that are parked behind it.
local function stand_in_line(key, id, holds)
  local line = redis.call('HGET', LINES, key)
  if not line then
    redis.call('HSET', LINES, key, id)
  elseif holds then
    redis.call('HSET', LINES, key, id .. ' ' .. line)
  else
    redis.call('HSET', LINES, key, line .. ' ' .. id)
  end
end

-- The order key of a job: it holds the key, or is parked behind the holder, which may come later.
local function stand_behind(key, id, holds)
  if holds and redis.call('HSETNX', KEY_HOLDERS, 'k' .. key, id) == 0 then
    return
  end
  redis.call('HSET', KEY_HOLDERS, 'i' .. id, key)
  if not holds then
    redis.call('ZADD', PREFIX .. 'parked/' .. key, add_to(META, 'places', 1), id)
  end
end

local function add(place, time, message)
  local id = message[2]
  local lane = tonumber(place)
  if lane and get(message, 'g') then
    if has_turn(id, '', message) then
      put_in_line(id, '', message, lane, tonumber(time))
    end
    return
  elseif lane then
    local entry = redis.call('XADD', lane_key(lane), next_entry(lane), unpack(message))
    note_size(META, lane, entry, size_of(message))
    note_lane(lane)
    call_once()
    set_place(id, lane .. entry, '')
    return
  end
  park(id, '', message, place, tonumber(time))
  if place == 'S' or place == 'R' then
    soonest = math.min(soonest or tonumber(time), tonumber(time))
  end
end

local writes = {
  L = function(at)
    return at + 1
  end,
  Y = function(at)
    return at + 2
  end,
  M = function(at)
    local place, time, key, holds, count = unpack(ARGV, at + 1, at + 5)
    local message = { unpack(ARGV, at + 6, at + 5 + count) }
    local is_known = key ~= '' and (holds == '1' or place == 'K')
    if is_known and not LINES then
      stand_behind(key, message[2], holds == '1')
    end
    add(place, time, message)
    if is_known and LINES then
      stand_in_line(key, message[2], holds == '1')
    end
    return at + 6 + count
  end,
  U = function(at)
    redis.call('SET', UNIQUE .. ARGV[at + 1], '0 ' .. ARGV[at + 2])
    return at + 3
  end,
  C = function(at)
    local count = tonumber(ARGV[at + 1])
    redis.call(unpack(ARGV, at + 2, at + 1 + count))
    return at + 2 + count
  end,
}

at = FIRST
while at <= #ARGV do
  at = writes[ARGV[at]](at)
end
redis.call('HSET', META, IMPORT, REACHED)
announce_if_sooner(nil, soonest)
return 1
