-- Picks messages of open lines, many at a time, and takes their slots and tokens. Tenants take turns. The lines of a
-- tenant go by the place of their first message, so that its messages are picked in their order.
--
-- A *pick* is what is taken from the front of a line: {line, constraints, tenant, ids, following: the place of the next
-- message in the line, or nil}.
local LINES_TRIED, REACH_MOST = 200, 128
local now = clock()
local tried, reach = 0, 16 -- lines that a limit has refused; how many lines of a tenant are looked at together
local bytes_left = 0 -- for what is picked next; the last message may be larger
local has_bulky = false -- see limits.lua

-- The ids of some first messages of a line, and their places. Where one follows before `bound`, as many as may be picked.
-- A line that is alone has no bound, and needs no places.
local function first_in(line, most, bound, is_alone)
  local key, ids, places = LIMITED .. 'line/' .. line, {}, {}
  if is_alone then
    return redis.call('ZRANGE', key, 0, most), places
  end
  local found = redis.call('ZRANGE', key, 0, 1, 'WITHSCORES')
  if most > 1 and found[4] and tonumber(found[4]) < bound then
    found = redis.call('ZRANGE', key, 0, most, 'WITHSCORES')
  end
  for at = 1, #found, 2 do
    ids[#ids + 1], places[#places + 1] = found[at], found[at + 1]
  end
  return ids, places
end

-- How many of the first `count` messages have room. Where all are small, it need not ask for the size of each.
local function fitting(ids, count)
  if not has_bulky then
    count = math.min(count, math.max(0, math.ceil(bytes_left / BULKY)))
    bytes_left = bytes_left - count * BULKY
    return count
  end
  for index = 1, count do
    if bytes_left <= 0 then
      return index - 1
    end
    bytes_left = bytes_left - redis.call('HSTRLEN', LIMITED .. 'msg', ids[index])
  end
  return count
end

local function place_at(line, rank)
  return redis.call('ZRANGE', LIMITED .. 'line/' .. line, rank, rank, 'WITHSCORES')[2]
end

-- Picks from a line, at most so many, and only those with a place before `bound`. A line that a limit refuses is blocked.
local function pick_from(letter, constraints, tenant, most, bound, is_alone)
  local line, count = letter .. constraints, 0
  local ids, places = first_in(line, most, bound, is_alone)
  while count < most and ids[count + 1] and (count == 0 or is_alone or tonumber(places[count + 1]) < bound) do
    count = count + 1
  end
  count = fitting(ids, count)
  local free, refusal = 0, nil
  if count > 0 then
    free, refusal = acquire(constraints, count, now)
  end
  if refusal then
    tried = tried + 1
    close_line(LIMITED, letter, constraints)
    block_line(LIMITED, line, refusal, now)
    return nil
  end
  local following = is_alone and #ids > free and place_at(line, free) or places[free + 1]
  for index = #ids, free + 1, -1 do
    ids[index] = nil
  end
  return { line = line, constraints = constraints, tenant = tenant, ids = ids, following = following }
end

-- Picks from the lines of a tenant that has no others beside it: the first of all messages that are in them.
local function pick_in_order(letter, tenant, most)
  local looked = math.min(reach, most + 1)
  local lines = redis.call('ZRANGE', LIMITED .. 'open/' .. letter .. '/' .. tenant, 0, looked - 1, 'WITHSCORES')
  local picks, budgets, left, soonest = {}, {}, most, math.huge
  for at = 1, #lines, 2 do
    for _, limit in ipairs(constraints_in(lines[at])) do
      budgets[#budgets + 1] = limit.budget
    end
  end
  know_counts(LIMITS .. 'runs/', budgets)
  if #lines == 0 then
    redis.call('ZREM', LIMITED .. 'open/' .. letter, tenant)
  end
  for at = 1, #lines, 2 do
    local place = tonumber(lines[at + 1])
    if left <= 0 or tried >= LINES_TRIED or place > soonest then
      return picks
    end
    -- Lines after the last one are not known.
    local others = tonumber(lines[at + 3]) or (#lines < 2 * looked and math.huge or place)
    local pick = pick_from(letter, lines[at], tenant, left, math.min(soonest, others), #lines == 2)
    if pick then
      picks[#picks + 1] = pick
      left, soonest = left - #pick.ids, math.min(soonest, tonumber(pick.following) or math.huge)
    end
  end
  reach = math.min(2 * reach, REACH_MOST)
  return picks
end

-- Picks from the first line of each tenant, from each the same number.
local function pick_in_turns(letter, tenants, most)
  local open, picks = LIMITED .. 'open/' .. letter, {}
  local share = math.max(1, math.floor(most / #tenants))
  for _, tenant in ipairs(tenants) do
    if tried >= LINES_TRIED then
      return picks
    end
    local lines = redis.call('ZRANGE', open .. '/' .. tenant, 0, 1, 'WITHSCORES')
    local bound = tonumber(lines[4]) or math.huge
    local pick = lines[1] and pick_from(letter, lines[1], tenant, share, bound, not lines[4])
    if not lines[1] then
      redis.call('ZREM', open, tenant)
    elseif pick then
      picks[#picks + 1] = pick
    elseif lines[4] then
      redis.call('ZADD', open, add_to(LIMITED .. 'meta', 'turns', 1), tenant)
    end
  end
  return picks
end

local function pick_some(letter, most)
  local tenants = redis.call('ZRANGE', LIMITED .. 'open/' .. letter, 0, most - 1)
  if #tenants == 1 then
    return pick_in_order(letter, tenants[1], most)
  end
  return pick_in_turns(letter, tenants, most)
end

-- The ids of picks, and the pick of each (where there is only one: the first has it). Those of one tenant are in order;
-- of several tenants the first of each, then the second of each.
local function ids_of(picks)
  if #picks == 1 then
    return picks[1].ids, picks
  end
  local ids, of, count, most = {}, {}, 0, 0
  local is_shared = #picks > 1 and picks[1].tenant ~= picks[2].tenant
  for _, pick in ipairs(picks) do
    most = math.max(most, #pick.ids)
    for index = 1, is_shared and 0 or #pick.ids do
      count = count + 1
      ids[count], of[count] = pick.ids[index], pick
    end
  end
  for index = 1, is_shared and most or 0 do
    for _, pick in ipairs(picks) do
      if pick.ids[index] then
        count = count + 1
        ids[count], of[count] = pick.ids[index], pick
      end
    end
  end
  return ids, of
end

-- What was picked leaves its lines. Those that are not empty stay open, with a new turn for their tenant.
local function leave_lines(letter, picks)
  local open, is_blocked = LIMITED .. 'open/' .. letter, redis.call('EXISTS', LIMITED .. 'blocked') == 1
  local places, emptied, tenants, turns = {}, {}, {}, {}
  for _, pick in ipairs(picks) do
    local constraints, tenant = pick.constraints, pick.tenant
    if not places[tenant] then
      places[tenant], emptied[tenant] = {}, {}
      tenants[#tenants + 1] = tenant
    end
    if #pick.ids > 0 then
      redis.call('ZREM', LIMITED .. 'line/' .. pick.line, unpack(pick.ids))
      count_waiting(constraints, -#pick.ids)
    end
    local changed = pick.following and places[tenant] or emptied[tenant]
    changed[#changed + 1] = pick.following
    changed[#changed + 1] = constraints
    if not pick.following and is_blocked then
      offer_to(LIMITED, constraints, now)
    end
  end
  for _, tenant in ipairs(tenants) do
    local lines = open .. '/' .. tenant
    if #emptied[tenant] > 0 then
      redis.call('ZREM', lines, unpack(emptied[tenant]))
    end
    if #places[tenant] > 0 then
      redis.call('ZADD', lines, unpack(places[tenant]))
    end
    if #places[tenant] > 0 or redis.call('EXISTS', lines) == 1 then
      turns[#turns + 1], turns[#turns + 2] = add_to(LIMITED .. 'meta', 'turns', 1), tenant
    else
      redis.call('ZREM', open, tenant)
    end
  end
  if #turns > 0 then
    redis.call('ZADD', open, unpack(turns))
  end
end
