-- Hands out queued messages as claim.lua does, also those with constraints. In each lane of a stream, those without and
-- with constraints get half each, or what the others leave.
--
-- requires: claim_context reading message healing limits gathering claiming picking
-- continues: claim_all
-- keys:     those of claim.lua · for each stream the prefix of its limits
-- args:     those of claim.lua · 1 or 0: the odd message of a lane is one with constraints · label of each stream ·
--           channel of notices · offset of the clock
-- answers:  those of claim.lua; what has constraints is in the lane x, its messages as `answered` of message.lua makes
--           them
local MESSAGES_MOST, PORTION, AT_ONCE = 500, 200, 100
-- Makes an entry of what is handed out longer. The server keeps up to 4 KiB of entries together, and walks over all of
-- them that are before the one that it looks for.
local FILLER = string.rep('.', 100)
local constrained = tonumber(ARGV[11])
local lanes_of, looked_at = {}, {}

for _, each in ipairs(used) do
  lanes_of[each[1]] = each[2]
end

local function uses(stream, letter)
  return lanes_of[stream] and string.find(lanes_of[stream], letter, 1, true)
end

-- The stream from which is taken, for limits.lua.
local function turn_to(stream)
  LIMITS = KEYS[streams * 6 + stream]
  LIMITED, LIMITED_LABEL = string.sub(KEYS[stream * 6], 1, -5), LABELS[stream]
end

-- Takes the ticket, if there is one. The names of readers are not kept there.
local function take_ticket(letter)
  local ticket = ticket_key(LIMITED, letter)
  if redis.call('XLEN', ticket) > 0 then
    redis.call('XTRIM', ticket, 'MAXLEN', 0)
    redis.pcall('XGROUP', 'DELCONSUMER', ticket, group, consumer)
  end
end

-- Whether a message may have flags, see finish.lua.
local function has_flags()
  return redis.call('EXISTS', LIMITED .. 'cancel', LIMITED .. 'w', LIMITED .. 'progress') > 0
end

local function flags_of(ids)
  local flags = {}
  for index, place in ipairs(redis.call('HMGET', LIMITED .. 'ids', unpack(ids))) do
    flags[index] = place and string.match(place, ';.*$') or ''
  end
  return flags
end

-- Moves messages into the lane of what is handed out; answers how many, the size of all, and the constraints of those
-- that need no slot: they were deleted by hand, or have other constraints now, which will give theirs back. What is
-- written and answered for each goes into `moved`, see `write_moved`. (Lua pays for each value that is made: this loop
-- makes as few as it can.)
local function hand_out(picks, moved)
  local ids, of = ids_of(picks)
  local key, call, count, size, unused = LIMITED .. 's:held', redis.call, 0, 0, {}
  if #ids == 0 then
    return 0, 0, unused
  end
  local messages, flags = call('HMGET', LIMITED .. 'msg', unpack(ids)), has_flags() and flags_of(ids)
  local before, moved_ids, places, written, entries = #moved.ids, moved.ids, moved.places, moved.written, moved.entries
  for index, id in ipairs(ids) do
    local packed, constraints = messages[index], (of[index] or of[1]).constraints
    if not packed or not string.find(packed, constraints, 1, true) then
      unused[#unused + 1] = constraints
    end
    if packed then
      local entry, at = call('XADD', key, '*', 'i', id, 'z', FILLER), #written + 1
      written[at], entries[#entries + 1] = entry, { entry, answered(id, packed) }
      places[2 * at - 1], places[2 * at] = id, flags and 'x' .. entry .. flags[index] or 'x' .. entry
      count, size = count + 1, size + #packed
    end
    moved_ids[before + index] = id
  end
  return count, size, unused
end

local function forget_bulky()
  if has_bulky and redis.call('EXISTS', LIMITED .. 'lined') == 0 then
    redis.call('HDEL', LIMITED .. 'meta', 'bulky')
  end
end

-- The consumer holds what was written. (A command that reads would answer it all, which costs more than the rest.)
local function write_moved(moved)
  local written = moved.written
  if #moved.ids > 0 then
    redis.call('ZREM', LIMITED .. 'lined', unpack(moved.ids))
    forget_bulky()
  end
  if #written > 0 then
    redis.call('HSET', LIMITED .. 'ids', unpack(moved.places))
    local last = written[#written]
    written[#written + 1], written[#written + 2] = 'LASTID', last
    written[#written + 1], written[#written + 2] = 'FORCE', 'JUSTID'
    redis.call('XCLAIM', LIMITED .. 's:held', group, consumer, 0, unpack(written))
  end
end

local function read_new(key)
  local reply = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', PORTION, 'STREAMS', key, '>')
  if reply and reply.err then
    redis.call('XGROUP', 'CREATE', key, group, '0', 'MKSTREAM')
    reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', PORTION, 'STREAMS', key, '>')
  end
  return reply and reply[1][2] or {}
end

-- Entries that no claim holds, each with its message: where the group was made again, where a step was cut short, or from
-- another program. They come first: once a later entry is held, no claim would read them.
local function read_forgotten()
  local entries = {}
  repeat
    local found = read_new(LIMITED .. 's:held')
    for _, entry in ipairs(found) do
      local id = entry[2][2]
      local packed = redis.call('HGET', LIMITED .. 'msg', id)
      entry[2] = packed and answered(id, packed) or entry[2]
      entries[#entries + 1] = entry
    end
  until #found < PORTION or #entries >= MESSAGES_MOST
  return entries
end

local function spend_held(count, size, lane)
  left, constrained = left - count, constrained - count
  room, here = room - size, here - size
  children = is_child(lane) and children - count or children
end

-- Takes messages for which a slot and a token of each of their limits are free; answers how many.
local function take_constrained(stream, lane, limit)
  local letter, count, bytes = letter_of(lane), 0, 0
  limit = math.min(limit, constrained, MESSAGES_MOST)
  if limit <= 0 or not uses(stream, letter) then
    return 0
  end
  turn_to(stream)
  looked_at[stream .. letter] = true
  take_ticket(letter)
  if redis.call('EXISTS', LIMITED .. 'open/' .. letter) == 0 then
    return 0
  end
  gather_counts()
  has_bulky = redis.call('HEXISTS', LIMITED .. 'meta', 'bulky') == 1
  local room = math.min(room, here)
  local moved = { ids = {}, places = {}, written = {}, entries = read_forgotten() }
  while #moved.entries < count + MESSAGES_MOST and count < limit and bytes < room and tried < LINES_TRIED do
    bytes_left = room - bytes
    local picks = pick_some(letter, math.min(limit - count, AT_ONCE))
    local found, size, unused = hand_out(picks, moved)
    leave_lines(letter, picks)
    for _, constraints in ipairs(unused) do
      give_back(constraints, true, now)
    end
    if #picks == 0 and redis.call('EXISTS', LIMITED .. 'open/' .. letter) == 0 then
      break
    end
    count, bytes = count + found, bytes + size
  end
  write_moved(moved)
  if #moved.entries > 0 then
    reads[#reads + 1] = { stream, 'x', moved.entries }
    spend_held(count, bytes, lane)
  end
  if redis.call('EXISTS', LIMITED .. 'open/' .. letter) == 1 then
    wake_reader(LIMITED, letter)
  else
    take_ticket(letter) -- of a line that this claim opened, and took from
  end
  write_counts()
  return count
end

-- The keys of limits belong to many streams: what another program has put there must not stop messages without any. The
-- error is raised when there are none.
local refused

local function try_constrained(stream, lane, limit)
  local is_done, problem = pcall(take_constrained, stream, lane, limit)
  if not is_done then
    refused = problem
    if not string.find(type(problem) == 'table' and problem.err or problem, 'WRONGTYPE', 1, true) then
      error(problem, 0)
    end
  end
end

local read_plain, most_plain = read, most_of

read = function(stream, lane, limit)
  local before = left
  try_constrained(stream, lane, math.floor((limit + ODD) / 2))
  local more = false
  if lane == 4 or uses(stream, tostring(lane)) then
    more = read_plain(stream, lane, limit - before + left)
  end
  if not more then
    try_constrained(stream, lane, limit - before + left)
  end
  return more
end

most_of = function(stream, lane)
  return uses(stream, letter_of(lane)) and math.max(portion, PORTION) or most_plain(stream, lane)
end

streams_of = function(lane)
  local found, letter = {}, letter_of(lane)
  for _, stream in ipairs(open) do
    if lane == 4 or uses(stream, tostring(lane)) or uses(stream, letter) then
      found[#found + 1] = stream
    end
  end
  return found
end

-- The read before may have brought the ticket of a lane to which this claim did not come: another reader gets it.
local function pass_tickets_on()
  for _, stream in ipairs(open) do
    for letter in string.gmatch(lanes_of[stream] or '', '[a-j]') do
      turn_to(stream)
      if not looked_at[stream .. letter] and redis.call('EXISTS', LIMITED .. 'open/' .. letter) == 1 then
        take_ticket(letter)
        wake_reader(LIMITED, letter)
      end
    end
  end
end

-- Makes the groups of tickets, on which a reader that found nothing blocks next.
local function make_groups()
  for _, stream in ipairs(open) do
    for letter in string.gmatch(lanes_of[stream] or '', '[a-j]') do
      local ticket = ticket_key(string.sub(KEYS[stream * 6], 1, -5), letter)
      if redis.call('EXISTS', ticket) == 0 or #redis.call('XINFO', 'GROUPS', ticket) == 0 then
        redis.call('XGROUP', 'CREATE', ticket, group, '0', 'MKSTREAM')
      end
    end
  end
end

local answer_plain = answer
answer = function(further, lane)
  if #reads + #further == 0 and refused then
    error(refused, 0)
  elseif #reads == 0 and ARGV[10] == '0' then
    make_groups()
  elseif left <= 0 or room <= 0 then
    pass_tickets_on()
  end
  return answer_plain(further, lane)
end
