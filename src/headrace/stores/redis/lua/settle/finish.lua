-- Settles successes. Those of a section are in one lane, have no unique key and were never requeued: as long as
-- all of them are held, they cost no work in Lua but what is written for a kept result.
--
-- requires: queue message place queueing ordering ending
-- keys:     those of the queue
-- args:     number of sections, for each: lane · count · 1 or 0: results are kept · that many entries · their
--           ids · time to live and content of the end record for each, if results are kept · of the lane x what
--           `give_back_all` in slots.lua reads;
--           then for each other success: id · lane · entry · origin · unique key · time to live · what it content
-- answers:  the indices, from 0 in the order of the arguments, of those that were already over; below zero, -1 - index:
--           it has got constraints since, and the script for such messages must settle it
local gone, index = {}, 0

-- What a late success still finds queued, or running elsewhere: the same message at another place.
local function follow(place, origin)
  local lane, entry = entry_at(place)
  local message = lane and message_in(lane, entry)
  if message and (get(message, 'o') or place) == origin then
    return lane, entry
  end
end

-- Takes out the message of a late success if it is parked until its key is free, or is in a line.
local function follow_parked(id, place, origin)
  local message = string.find(place, '^[a-jK]$') and message_at(place, id)
  if message and get(message, 'o') == origin then
    unpark(id, place)
    return true
  end
end

local function succeed(id, lane, entry, origin, unique, ttl, content)
  local place, flags = place_of(id)
  if place and place ~= lane .. entry then
    if not KEYS[19] and string.find(place, '^[a-jx]') then
      gone[#gone + 1] = -1 - index
      return
    end
    lane, entry = follow(place, origin)
    if not lane and follow_parked(id, place, origin) then
      return finish(id, flags, unique, ttl, content)
    end
  elseif not place and redis.call('XACK', lane_key(lane), GROUP, entry) == 0 then
    lane = nil
  end
  if not lane then
    gone[#gone + 1] = index
    return
  end
  take_out(lane, entry)
  finish(id, flags, unique, ttl, content)
end

-- Wakes the callers that wait for one of these, before the places are forgotten.
local function flags_of(first, last)
  local flagged = {}
  if redis.call('EXISTS', CANCEL, WAITERS, PROGRESS) > 0 then
    for at, value in ipairs(redis.call('HMGET', IDS, unpack(ARGV, first, last))) do
      flagged[ARGV[first + at - 1]] = value and string.match(value, ';(.*)$') or nil
    end
  end
  return flagged
end

local function finish_held(lane, count, entries, ids, records, constraints)
  local flagged = flags_of(ids, ids + count - 1)
  redis.call('XDEL', lane_key(lane), unpack(ARGV, entries, ids - 1))
  redis.call('HDEL', IDS, unpack(ARGV, ids, ids + count - 1))
  if records then
    local now = clock()
    for at = 0, count - 1 do
      write_end_record(ARGV[ids + at], now, tonumber(ARGV[records + 2 * at]), ARGV[records + 2 * at + 1])
    end
  end
  for id, flags in pairs(flagged) do
    forget_asides(id, flags)
    wake(id, flags)
  end
  if lane == HELD then
    give_back_all(ids, count, constraints)
  end
  index = index + count
end

local function finish_section(at)
  local lane, count, kept = tonumber(ARGV[at]) or HELD, tonumber(ARGV[at + 1]), ARGV[at + 2] == '1'
  local entries = at + 3
  local ids = entries + count
  local records = kept and ids + count
  local ends = kept and records + 2 * count or ids + count
  if redis.call('XACK', lane_key(lane), GROUP, unpack(ARGV, entries, ids - 1)) == count then
    finish_held(lane, count, entries, ids, records, ends)
  else
    for number = 0, count - 1 do
      local entry = ARGV[entries + number]
      local ttl = kept and tonumber(ARGV[records + 2 * number]) or 0
      local content = kept and ARGV[records + 2 * number + 1]
      succeed(ARGV[ids + number], lane, entry, lane .. entry, nil, ttl, content)
      index = index + 1
    end
  end
  return lane == HELD and ends + 1 + 2 * tonumber(ARGV[ends]) or ends
end

local at = 6
for _ = 1, tonumber(ARGV[5]) do
  at = finish_section(at)
end
while at <= #ARGV do
  local id, lane, entry, origin, unique, ttl, content = unpack(ARGV, at, at + 6)
  succeed(id, tonumber(lane) or HELD, entry, origin, unique, tonumber(ttl), content)
  index = index + 1
  at = at + 7
end
return gone
