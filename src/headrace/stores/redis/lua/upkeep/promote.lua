-- Queues scheduled and retrying messages that are due, the earliest first. Appends first and removes after, so
-- that it is refused whole when the server has no memory left. Also opens lines for tokens that came back.
--
-- requires: queue due promotions quiet_queue message place queueing ordering ending healing limits lines gathering slots mending tokens
-- keys:     those of the queue
-- args:     limit · bytes after which it stops
-- answers:  how many · microseconds until the next is due, -1: nothing is scheduled · limits whose tokens were due ·
--           the number of promotions of all workers, -1: it does not tell whether another was faster
local limit, bytes = tonumber(ARGV[5]), tonumber(ARGV[6])
local first = first_due()
local now = clock()

local function due_in(key)
  return redis.call('ZRANGEBYSCORE', key, '-inf', digits(now), 'WITHSCORES', 'LIMIT', 0, limit)
end

local function promote(id, place)
  local packed = redis.call('HGET', MESSAGES, id)
  if packed then
    local _, flags = place_of(id)
    enqueue(id, flags, unpacked(id, packed))
    bytes = bytes - #packed
  else
    redis.call('HDEL', IDS, id)
  end
  unpark(id, place)
end

local count = 0
if first and first <= now then
  local due, retry = due_in(DUE), due_in(RETRY)
  local d, r = 1, 1
  while count < limit and bytes > 0 and (due[d] or retry[r]) do
    if not retry[r] or (due[d] and tonumber(due[d + 1]) <= tonumber(retry[r + 1])) then
      promote(due[d], 'S')
      d = d + 2
    else
      promote(retry[r], 'R')
      r = r + 2
    end
    count = count + 1
  end
  first = first_due()
end
mend(now) -- at last, since this removes first
local opens, looks = look_for_tokens(now)
first = soonest_of(first, opens)
if count > 0 or looks > 0 then
  count_promotion()
end
return { count, first and math.max(0, first - now) or -1, looks, known_promotions() }
