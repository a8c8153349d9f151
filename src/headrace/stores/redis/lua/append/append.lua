-- Stores the messages of a batch, in order. Refused whole when the server has no memory left: nothing but
-- commands that need memory comes first.
--
-- requires: queue due message place queueing counting moved batch
-- keys:     those of the queue
-- args:     those of shared/batch.lua · limit, or -1 · what the messages are:
--             f: fresh, of one task, without options; then task, and for each message: id · body
--             1: all ids are different and no message has options, or 0: anything; then for each message: id ·
--             task · body · options, empty or 'priority child delay due lifetime kind window ttl order constraints
--             key' (child: 1 or 0; kind: f, s, e or - of the unique key, r or R of a message that replaces, see
--             append_replacing.lua; ttl: microseconds for which the end record of an expired owner stays; order and
--             constraints: their bytes in front of the unique key, or -), which needs append_unique.lua when there is
--             a key, append_limited.lua when there are constraints or an order key, and append_replacing.lua when
--             one replaces
-- answers:  three for each message that was not accepted: its index from 0 · d, r or f · the id that is stored
local limit, SHAPE, FIRST, WIDTH = tonumber(ARGV[8]), ARGV[9], 10, 4
local count = (#ARGV - FIRST + 1) / WIDTH

local found = redis.call('MGET', producer, PRODUCER, awaited_key(META))
local waiter, early = found[3], early_answer(found[1], found[2])
if early then
  return early
end

local added = {}

-- The most common case: an id that was made by chance just now cannot be known, and a repeat was recognised by
-- its number. To look for it all the same would be a quarter of the time.
if SHAPE == 'f' then
  local call, lane, task, entry = redis.call, KEYS[4], ARGV[FIRST], OFFSET == 0 and '*'
  local added, largest
  for at = FIRST + 1, #ARGV, 2 do
    local id, body = ARGV[at], ARGV[at + 1]
    added = call('XADD', lane, entry or next_entry(4), 'i', id, 't', task, 'm', body)
    ARGV[at + 1] = '4' .. added
    if #body > SMALL then
      largest = math.max(largest or 0, #body)
    end
  end
  call('HSET', IDS, unpack(ARGV, FIRST + 1))
  note_size(META, 4, added, largest or 0)
  call_waiter(META, LABEL, waiter)
  remember_answers()
  return answers
end

local ids, end_records = {}, {}
for index = 1, count do
  local id = ARGV[FIRST + (index - 1) * WIDTH]
  ids[index] = id
  end_records[index] = END_RECORD .. id
end
local places = redis.call('HMGET', IDS, unpack(ids))
local has_end_records = redis.call('EXISTS', unpack(end_records)) > 0

local function any_known()
  for index = 1, count do
    if places[index] then
      return true
    end
  end
  return has_end_records
end

-- The common case of the others: new messages without options. (A closure less in this loop is a tenth of its time.)
if SHAPE == '1' and limit < 0 and OFFSET == 0 and not any_known() then
  local call, lane = redis.call, KEYS[4]
  local last, largest
  for index = 1, count do
    local at = FIRST + (index - 1) * WIDTH
    local id, body = ARGV[at], ARGV[at + 2]
    last = call('XADD', lane, '*', 'i', id, 't', ARGV[at + 1], 'm', body)
    added[2 * index - 1] = id
    added[2 * index] = '4' .. last
    if #body > SMALL then
      largest = math.max(largest or 0, #body)
    end
  end
  call('HSET', IDS, unpack(added))
  note_size(META, 4, last, largest or 0)
  call_waiter(META, LABEL, waiter)
  remember_answers()
  return answers
end

local room = limit >= 0 and limit - waiting() - redis.call('ZCARD', DUE) or math.huge
local fresh = {}
local before, soonest

local function has_end_record(id)
  local value = text_at(END_RECORD .. id)
  return value and (tonumber(string.match(value, '^%d+ (%d+)') or '') or 0) > now
end

-- Whether a place is more than a memory of a stream that was deleted by hand.
local function lives(id, value)
  local place = string.match(value, '^[^;]*')
  return message_at(place, id) ~= nil
end

local function is_known(index, id)
  local value = places[index]
  return fresh[id] or (value and lives(id, value)) or (has_end_records and has_end_record(id))
end

local function hold(kind, key, window, id)
  if kind ~= 'e' then
    redis.call('SET', UNIQUE .. key, '0 ' .. id)
  elseif window > 0 then
    redis.call('SET', UNIQUE .. key, digits(now + window) .. ' ' .. id, 'PX', math.ceil(window / 1000))
  end
end

local function refuse(index, verdict, id)
  answers[#answers + 1] = index - 1
  answers[#answers + 1] = verdict
  answers[#answers + 1] = id
end

local function schedule(id, flags, message, ready)
  if not soonest then
    before = first_due()
  end
  park(id, flags, message, 'S', ready)
  soonest = math.min(soonest or ready, ready)
end

local function add(index, id, task, body, options)
  local priority, child, delay, due, lifetime, kind, window, ttl, order, constraints, key =
    string.match(options, '^(%d+) ([01]) (%d+) (%d+) (%d+) ([fserR-]) (%d+) (%d+) (%S+) (%S+) (.*)$')
  local is_constrained = constraints ~= '-'
  if is_constrained then
    local ends = order ~= '-' and tonumber(order) or 0
    order = order ~= '-' and string.sub(key, 1, ends)
    ends, constraints = ends + tonumber(constraints), string.sub(key, ends + 1, ends + tonumber(constraints))
    key = string.sub(key, ends + 1)
  end
  local owner, expired, replaced
  if kind ~= '-' then
    owner, expired = holder_of(key, now, fresh)
  end
  if kind == 'r' or kind == 'R' then
    added = replacing.write_places(added)
    replaced = owner and replacing.owner(owner, key)
  elseif owner then
    return refuse(index, 'd', owner)
  end
  local freed = (expired or replaced and replaced.counts) and 1 or 0
  if room + freed <= 0 then
    return refuse(index, 'f', id)
  end
  room = room + freed
  local flags = ''
  if replaced then
    flags = replacing.take_away(replaced)
    replacing.note(kind, id, task, tonumber(ttl))
    refuse(index, 'r', owner)
    id = owner
  end
  kind = (kind == 'r' or kind == 'R') and 's' or kind
  local ready = math.max(now + delay, tonumber(due))
  local message = { 'i', id, 't', task, 'm', body }
  put(message, 'p', priority ~= '1' and priority)
  put(message, 'c', child == '1' and child)
  put(message, 'e', lifetime ~= '0' and digits(ready + lifetime))
  put(message, 'u', kind ~= '-' and kind .. key)
  if is_constrained then
    put(message, 'k', order)
    put(message, 'g', constraints)
  end
  if ready > now then
    schedule(id, flags, message, ready)
  elseif is_constrained or replaced then
    enqueue(id, flags, message)
  else
    local lane = lane_of(message)
    local entry = redis.call('XADD', lane_key(lane), next_entry(lane), unpack(message))
    note_size(META, lane, entry, #body)
    note_lane(lane)
    added[#added + 1] = id
    added[#added + 1] = lane .. entry
  end
  if expired then
    end_owner(expired, tonumber(ttl))
  end
  has_end_records = has_end_records or expired or replaced -- a later message of the batch may have its id
  if kind ~= '-' then
    hold(kind, key, tonumber(window), id)
  end
  fresh[id] = true
  room = room - 1
end

for index = 1, count do
  local at = FIRST + (index - 1) * WIDTH
  local id, options = ARGV[at], ARGV[at + 3]
  if is_known(index, id) then
    refuse(index, 'd', id)
  else
    add(index, id, ARGV[at + 1], ARGV[at + 2], options ~= '' and options or '1 0 0 0 0 - 0 0 - - ')
  end
end

if #added > 0 then
  redis.call('HSET', IDS, unpack(added))
  call_waiter(META, LABEL, waiter)
end
announce_if_sooner(before, soonest)
remember_answers()
return answers
