-- Queues scheduled and retrying messages that are due, the earliest first. Appends first and removes after, so
-- that it is refused whole when the server has no memory left. Also opens lines for tokens that came back.
--
-- requires: queue due promotions quiet_queue message place queueing promoting ordering ending healing limits lines gathering slots mending tokens
-- keys:     those of the queue
-- args:     limit · bytes after which it stops
-- answers:  how many · microseconds until the next is due, -1: nothing is scheduled · limits whose tokens were due ·
--           the number of promotions of all workers, -1: it does not tell whether another was faster
local now = clock()
promote_due(now)
mend(now) -- at last, since this removes first
local opens, looks = look_for_tokens(now)
local first = soonest_of(first_due(), opens)
if count > 0 or looks > 0 then
  count_promotion()
end
return { count, first and math.max(0, first - now) or -1, looks, known_promotions() }
