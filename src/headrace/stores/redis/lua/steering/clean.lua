-- Removes messages that are in one state. Dead letters and end records are deleted; the others end as cancelled.
--
-- requires: queue message place queueing ordering ending expiry expiring healing limits lines slots
-- keys:     those of the queue
-- args:     status · microseconds for which end records stay · ids
-- answers:  how many
local status, ttl = ARGV[5], tonumber(ARGV[6])
local STATUSES = { S = 'scheduled', R = 'retrying', D = 'dead' }

local function forget_record(id)
  local kept = string.match(text_at(END_RECORD .. id) or '', '^%d+ %d+ (%a+)')
  return kept == status and redis.call('DEL', END_RECORD .. id) == 1
end

local function forget_dead(id)
  redis.call('ZREM', DEAD, id)
  redis.call('HDEL', MESSAGES, id)
  redis.call('HDEL', IDS, id)
  return true
end

local function remove(id)
  local place, flags = place_of(id)
  local message = place and message_at(place, id)
  if not message then
    return forget_record(id)
  end
  local lane, entry = entry_at(place)
  local runs = lane and holder(lane, entry)
  if status ~= (runs and 'running' or STATUSES[place] or 'queued') then
    return false
  elseif place == 'D' then
    return forget_dead(id)
  elseif lane then
    take_out(lane, entry)
  else
    unpark(id, place)
  end
  finish_waiting(id, flags, message, ttl)
  return true
end

local count = 0
for at = 7, #ARGV do
  count = count + (remove(ARGV[at]) and 1 or 0)
end
return count
