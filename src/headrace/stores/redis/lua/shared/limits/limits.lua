-- Lines of messages with constraints, and the limits that they wait for (core/limits/limiting.py).
--
-- A *budget* is a limit, or one key of it: '<limit>/<key>'. LIMITS is the prefix of what is counted for all streams:
--   figures, overrides   hash: limit → '<max running> <count> <microseconds> <burst>', - for what it does not limit
--   runs/<budget>        how many run
--   active/<budget>      how many run or wait, of limits with keys
--   running waiting keys hash: limit → how many run and wait, and how many of its keys do
--   next/<budget>        the next moment of its rate, see core/limits/rate.py
--   timers               sorted set: budget by the time at which to look for tokens
--   blocked/<budget>/<stream>  sorted set: lines by lane and place
--   streams/<budget>     sorted set: streams that have such lines, by the time at which one was opened last
--   waits/<limit>        sorted set: budgets that have such lines, by the time since when
--
-- A stream is named here by the prefix of its keys. A *line* is the letter of its lane, followed by the constraints of
-- its messages (field g). Its keys:
--   line/<line>          sorted set: id by place
--   lined                sorted set: id by time, of all lines
--   open/<letter>        sorted set: tenants that have open lines, by turn
--   open/<letter>/<tenant>  sorted set: constraints of open lines, by the place of the first message
--   blocked              hash: line → the budget that it waits for
--   meta                 its field `bulky`: some message of more than BULKY bytes came into a line since all were empty
--   s:<lane>/open        stream with one entry, a ticket, while there is an open line: it wakes one reader
--
-- offers:  LIMITS LIMITED LIMITED_LABEL LOOK_US GATHER_US STREAMS_MOST BULKY known_counts letter_of ticket_key
-- offers:  constraints_in number_in add_to figures_of tolerance_of next_moment limit_of wake_reader open_line close_line
-- offers:  set_timer offer offer_to block_line count_waiting enter_line leave_line acquire give_back_to give_back
local LIMITS = KEYS[#KEYS]
local LIMITED, LIMITED_LABEL = string.sub(META, 1, -5), LABEL -- the stream that the script is about
local LANES = 'abcdefghij' -- the letters of the lanes 0 to 9
local LANE_NAMES = { 'suspect', 'returned', 'high', 'normal', 'low' }
local LOOK_US, GATHER_US, STREAMS_MOST, BULKY = 1000, 20000, 16, 2048
local PASSED_MOST = 100
local known_counts = {}
local known_constraints, known_figures = {}, {}

local function letter_of(lane)
  return string.sub(LANES, lane + 1, lane + 1)
end

local function ticket_key(stream, letter)
  local lane = string.byte(letter) - 97
  local is_child = lane == 0 or lane > 5
  local name = LANE_NAMES[lane == 0 and 1 or is_child and lane - 4 or lane]
  return stream .. 's:' .. name .. (is_child and '/child' or '') .. '/open'
end

-- Limits and tenant. Another program may have written anything.
local function constraints_in(packed)
  local known = known_constraints[packed]
  if known then
    return known
  end
  known = { tenant = '' }
  -- Most have one limit, and names without a backslash: these are read in half the time.
  local name, key, tenant = string.match(packed, '^%[%[%["([^"\\]*)","([^"\\]*)"%]%],"([^"\\]*)"%]$')
  if name then
    known.tenant, known[1] = tenant, { name = name, key = key, budget = name .. '/' .. key }
    known_constraints[packed] = known
    return known
  end
  local is_read, constraints = pcall(cjson.decode, packed)
  if is_read and type(constraints) == 'table' and type(constraints[1]) == 'table' then
    known.tenant = type(constraints[2]) == 'string' and constraints[2] or ''
    local met = {}
    for _, each in ipairs(constraints[1]) do
      local name, key = type(each) == 'table' and each[1], type(each) == 'table' and each[2]
      local budget = type(name) == 'string' and type(key) == 'string' and name .. '/' .. key
      if budget and not met[budget] then
        met[budget] = true
        known[#known + 1] = { name = name, key = key, budget = budget }
      end
    end
  end
  known_constraints[packed] = known
  return known
end

-- A number that another program may have written; nil: it is none, or none that can be meant.
local function number_in(text)
  local number = tonumber(text or '')
  return number and math.abs(number) < 2 ^ 53 and number or nil
end

-- A count: a field of a hash, or where the name ends with a slash a key, since a server finds a field of a small hash
-- slowly. Within a script each is read once.
local function count_in(name, field)
  local known = known_counts[name]
  if not known then
    known = {}
    known_counts[name] = known
  end
  if not known[field] then
    local is_prefix = string.sub(name, -1) == '/'
    local count = is_prefix and redis.call('GET', name .. field) or not is_prefix and redis.call('HGET', name, field)
    known[field] = number_in(count) or 0
  end
  return known[field], known
end

-- Adds to a count, and answers it. A count of 0 is not stored. In a script that gathers counts, gathering.lua writes
-- them.
local function add_to(name, field, change)
  local before, known = count_in(name, field)
  local count = before + change
  known[field] = math.max(0, count)
  local gathered = known_counts.gathered
  if gathered then
    gathered[name] = gathered[name] or {}
    gathered[name][field] = true
    return count
  end
  local is_prefix = string.sub(name, -1) == '/'
  if is_prefix and count > 0 then
    redis.call('SET', name .. field, count)
  elseif is_prefix then
    redis.call('DEL', name .. field)
  elseif count > 0 then
    redis.call('HSET', name, field, count)
  else
    redis.call('HDEL', name, field)
  end
  return count
end

-- --- what a limit allows

local function figures_of(name)
  local figures = known_figures[LIMITS .. name]
  if figures == nil then
    local text = redis.call('HGET', LIMITS .. 'overrides', name) or redis.call('HGET', LIMITS .. 'figures', name)
    local most, count, per, burst = string.match(text or '', '^(%S+) (%S+) (%S+) (%S+)$')
    figures = most and {} or false
    if most then
      figures.most, figures.count, figures.per = number_in(most), number_in(count), number_in(per)
      figures.burst = number_in(burst)
      if math.min(figures.count or 0, figures.per or 0, figures.burst or 0) < 1 then
        figures.count = nil
      end
    end
    known_figures[LIMITS .. name] = figures
  end
  return figures
end

-- The rate, as `Rate` in core/limits/rate.py. (A block, since a script may have 200 names.)
local function tolerance_of(rate)
  return math.floor((rate.burst - 1) * rate.per / rate.count)
end

local tokens_of, spend_tokens
do
  local function cost_of(rate, starts)
    return math.min(math.ceil(starts * rate.per / rate.count), 2 ^ 50)
  end

  local function set_moment(budget, moment, now)
    local key = LIMITS .. 'next/' .. budget
    redis.call('DEL', key) -- a removal first: it is not refused when memory is short
    if moment > now then
      redis.call('SET', key, digits(moment), 'PX', math.ceil((moment - now) / 1000))
    end
  end

  -- It is at most a full burst ahead, unless the clock was set back.
  next_moment = function(rate, budget, now)
    local moment = number_in(redis.call('GET', LIMITS .. 'next/' .. budget)) or 0
    local bound = now + cost_of(rate, rate.burst)
    if moment > bound then
      set_moment(budget, bound, now)
    end
    return math.min(moment, bound)
  end

  -- How many starts are allowed now.
  tokens_of = function(rate, budget, now)
    local room = tolerance_of(rate) - math.max(0, next_moment(rate, budget, now) - now)
    return room < 0 and 0 or math.floor(room * rate.count / rate.per) + 1
  end

  -- Spends tokens; below zero they come back.
  spend_tokens = function(rate, budget, starts, now)
    set_moment(budget, math.max(next_moment(rate, budget, now), now) + cost_of(rate, starts), now)
  end
end

-- How many more messages may start.
local function free_of(limit, now)
  local figures = figures_of(limit.name)
  local slots = figures and figures.most and figures.most - count_in(LIMITS .. 'runs/', limit.budget) or math.huge
  if figures and figures.count and slots > 0 then
    return math.min(slots, tokens_of(figures, limit.budget, now))
  end
  return slots
end

local function is_free(limit, now)
  return free_of(limit, now) > 0
end

local function limit_of(budget)
  local name, key = string.match(budget, '^([^/]*)/(.*)$')
  return { name = name, key = key, budget = budget }
end

local function note_active(limit, change)
  if limit.key ~= '' then
    local count = add_to(LIMITS .. 'active/', limit.budget, change)
    if count <= 0 then
      add_to(LIMITS .. 'keys', limit.name, -1)
    elseif count == change then
      add_to(LIMITS .. 'keys', limit.name, 1)
    end
  end
end

-- --- open and blocked lines

-- Wakes a reader. A reader that does not block has left its name.
local function wake_reader(stream, letter)
  local ticket = ticket_key(stream, letter)
  if redis.call('XLEN', ticket) == 0 then
    redis.call('XADD', ticket, '*', 'o', '1')
  end
  local tagged = string.match(stream, '}:g:(.*)/$') -- a queue with a hash tag
  local label = stream == LIMITED and LIMITED_LABEL or tagged and 'queue:' .. tagged
  local name = label and text_at(stream .. 'awaited')
  if name then
    redis.call('DEL', stream .. 'awaited')
    redis.call('PUBLISH', NOTICES, 'ready ' .. label .. ' ' .. name)
  end
end

local function put_open(stream, letter, constraints, place)
  local tenant = constraints_in(constraints).tenant
  redis.call('ZADD', stream .. 'open/' .. letter .. '/' .. tenant, place, constraints)
  if not redis.call('ZSCORE', stream .. 'open/' .. letter, tenant) then
    local turn = add_to(stream .. 'meta', 'turns', 1)
    redis.call('ZADD', stream .. 'open/' .. letter, turn, tenant)
  end
end

local function first_of(stream, line)
  local first = redis.call('ZRANGE', stream .. 'line/' .. line, 0, 0, 'WITHSCORES')
  return first[1], first[2]
end

-- Answers whether the line has messages.
local function open_line(stream, line)
  local _, place = first_of(stream, line)
  redis.call('HDEL', stream .. 'blocked', line)
  if place then
    put_open(stream, string.sub(line, 1, 1), string.sub(line, 2), place)
    wake_reader(stream, string.sub(line, 1, 1))
  end
  return place
end

local function close_line(stream, letter, constraints)
  local tenant = constraints_in(constraints).tenant
  local lines = stream .. 'open/' .. letter .. '/' .. tenant
  redis.call('ZREM', lines, constraints)
  if redis.call('EXISTS', lines) == 0 then
    redis.call('ZREM', stream .. 'open/' .. letter, tenant)
  end
end

-- No line of this stream waits for a budget any more.
local function forget_blocked(stream, limit)
  redis.call('ZREM', LIMITS .. 'streams/' .. limit.budget, stream)
  if redis.call('EXISTS', LIMITS .. 'streams/' .. limit.budget) == 0 then
    redis.call('ZREM', LIMITS .. 'waits/' .. limit.name, limit.budget)
    redis.call('ZREM', LIMITS .. 'timers', limit.budget)
  end
end

local function unblock_line(stream, line, limit)
  local lines = LIMITS .. 'blocked/' .. limit.budget .. '/' .. stream
  redis.call('ZREM', lines, line)
  redis.call('HDEL', stream .. 'blocked', line)
  if redis.call('EXISTS', lines) == 0 then
    forget_blocked(stream, limit)
  end
end

-- Opens the first line of a stream that waits for a limit. One whose messages were deleted by hand is passed over.
local function open_first(stream, limit)
  local lines = LIMITS .. 'blocked/' .. limit.budget .. '/' .. stream
  for _ = 1, PASSED_MOST do
    local line = redis.call('ZRANGE', lines, 0, 0)[1]
    if not line then
      return forget_blocked(stream, limit)
    end
    unblock_line(stream, line, limit)
    if open_line(stream, line) then
      return
    end
  end
end

-- Lines wait for a limit. If that has no token, says when to look for one. (A slot that comes back is offered anyway.)
local function set_timer(limit, now)
  local rate = figures_of(limit.name)
  if not rate or not rate.count or redis.call('ZSCORE', LIMITS .. 'timers', limit.budget) then
    return
  elseif tokens_of(rate, limit.budget, now) > 0 then
    return
  end
  local tolerance = tolerance_of(rate)
  local opens = math.max(now, next_moment(rate, limit.budget, now) - tolerance)
  local at = math.max(opens + math.min(GATHER_US, math.floor(tolerance / 2)), now + LOOK_US)
  local first = tonumber(redis.call('ZRANGE', LIMITS .. 'timers', 0, 0, 'WITHSCORES')[2])
  redis.call('ZADD', LIMITS .. 'timers', digits(at), limit.budget)
  if not first or at < first then
    redis.call('PUBLISH', NOTICES, 'due ' .. LIMITED_LABEL)
  end
end

-- A slot or token may be free: opens a line of each stream, since any of them may have no worker. A line that is claimed
-- opens the next.
local function offer(limit, now)
  local waiting = LIMITS .. 'streams/' .. limit.budget
  if redis.call('EXISTS', waiting) == 0 then
    return
  elseif not is_free(limit, now) then
    return set_timer(limit, now)
  end
  for _, stream in ipairs(redis.call('ZRANGE', waiting, 0, STREAMS_MOST - 1)) do
    open_first(stream, limit)
    if redis.call('ZSCORE', waiting, stream) then
      redis.call('ZADD', waiting, digits(now), stream)
    end
  end
end

-- An open line took nothing, or is empty: opens the next line of the same stream for each of its limits.
local function offer_to(stream, constraints, now)
  for _, limit in ipairs(constraints_in(constraints)) do
    local lines = LIMITS .. 'blocked/' .. limit.budget .. '/' .. stream
    if redis.call('EXISTS', lines) == 1 then
      if is_free(limit, now) then
        open_first(stream, limit)
      else
        set_timer(limit, now)
      end
    end
  end
end

-- A line has asked a limit in vain.
local function block_line(stream, line, limit, now)
  local _, place = first_of(stream, line)
  local lane = string.byte(line) - 97
  local score = string.find('1026374859', lane, 1, true) * 2 ^ 48 + place -- the order in which lanes are read
  redis.call('ZADD', LIMITS .. 'blocked/' .. limit.budget .. '/' .. stream, digits(score), line)
  redis.call('ZADD', LIMITS .. 'streams/' .. limit.budget, 'NX', digits(now), stream)
  redis.call('ZADD', LIMITS .. 'waits/' .. limit.name, 'NX', digits(now), limit.budget)
  redis.call('HSET', stream .. 'blocked', line, limit.budget)
  set_timer(limit, now)
  offer_to(stream, string.sub(line, 2), now)
end

-- --- messages in lines

local function count_waiting(constraints, change)
  for _, limit in ipairs(constraints_in(constraints)) do
    add_to(LIMITS .. 'waiting', limit.name, change)
  end
end

local function count_active(constraints, change)
  for _, limit in ipairs(constraints_in(constraints)) do
    note_active(limit, change)
  end
end

-- A message was put into a line. The caller has stored it and sets its place.
local function enter_line(stream, line, id, now)
  local constraints, place = string.sub(line, 2), add_to(stream .. 'meta', 'places', 1)
  redis.call('ZADD', stream .. 'line/' .. line, place, id)
  redis.call('ZADD', stream .. 'lined', digits(now), id)
  count_waiting(constraints, 1)
  count_active(constraints, 1)
  if redis.call('ZCARD', stream .. 'line/' .. line) == 1 then
    open_line(stream, line)
  end
end

-- Messages leave a line, since they end.
local function leave_line(stream, line, ids, now)
  local constraints = string.sub(line, 2)
  local left = redis.call('ZREM', stream .. 'line/' .. line, unpack(ids))
  if left == 0 then
    return
  end
  redis.call('ZREM', stream .. 'lined', unpack(ids))
  count_waiting(constraints, -left)
  count_active(constraints, -left)
  if redis.call('EXISTS', stream .. 'line/' .. line) == 1 then
    return
  end
  local budget = redis.call('HGET', stream .. 'blocked', line)
  if budget then
    unblock_line(stream, line, limit_of(budget))
  else
    close_line(stream, string.sub(line, 1, 1), constraints)
  end
  offer_to(stream, constraints, now)
end

-- Takes a slot and a token of each limit for as many messages as possible, and answers how many; or 0 and a limit that
-- has none, and takes nothing.
local function acquire(constraints, wanted, now)
  local limits = constraints_in(constraints)
  for _, limit in ipairs(limits) do
    wanted = math.min(wanted, free_of(limit, now))
    if wanted <= 0 then
      return 0, limit
    end
  end
  for _, limit in ipairs(limits) do
    local figures = figures_of(limit.name)
    add_to(LIMITS .. 'runs/', limit.budget, wanted)
    add_to(LIMITS .. 'running', limit.name, wanted)
    if figures and figures.count then
      spend_tokens(figures, limit.budget, wanted, now)
    end
  end
  return wanted
end

-- Gives slots of a limit back; those of messages that were not started with their tokens. `awaited` is false where no
-- line waits for them.
local function give_back_to(limit, unstarted, now, several, awaited)
  local figures = figures_of(limit.name)
  add_to(LIMITS .. 'runs/', limit.budget, -several)
  add_to(LIMITS .. 'running', limit.name, -several)
  note_active(limit, -several)
  if unstarted and figures and figures.count then
    spend_tokens(figures, limit.budget, -several, now)
  end
  if awaited ~= false then
    offer(limit, now)
  end
end

local function give_back(constraints, unstarted, now)
  for _, limit in ipairs(constraints_in(constraints)) do
    give_back_to(limit, unstarted, now, 1)
  end
end
