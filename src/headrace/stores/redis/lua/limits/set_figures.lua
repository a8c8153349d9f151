-- Stores the figures of a limit, and opens lines that may go on, of a bounded number of budgets.
--
-- requires: limit_context reading healing limits
-- keys:     the prefix of limits
-- args:     those of limit_context.lua · name · d: declare it, o: override it, or n: only open more lines · figures,
--           empty: the override ends · the time up to which lines were blocked that are to be opened, empty: now
-- answers:  the figures that were declared before, or empty · the time, if there are more lines to open, else empty
local BUDGETS_MOST = 100
local name, verb, figures = ARGV[5], ARGV[6], ARGV[7]
local now = clock()
local last = tonumber(ARGV[8]) or now
local before = redis.call('HGET', LIMITS .. 'figures', name) or ''
redis.call('HGET', LIMITS .. 'overrides', name) -- so that it is there for what is read here (see healing.lua)

if verb == 'd' then
  redis.call('HSET', LIMITS .. 'figures', name, figures)
elseif verb == 'o' and figures == '' then
  redis.call('HDEL', LIMITS .. 'overrides', name)
elseif verb == 'o' and before ~= '' then
  redis.call('HSET', LIMITS .. 'overrides', name, figures)
end
if LABEL == '' and (verb == 'o' or (verb == 'd' and before ~= figures)) then
  redis.call('SET', LIMITS .. 'revision', digits(now)) -- workers read the figures again
end
if before == '' or (verb == 'd' and before == figures) then
  return { before, '' }
end

local waits = LIMITS .. 'waits/' .. name
local budgets = redis.call('ZRANGEBYSCORE', waits, '-inf', digits(last), 'LIMIT', 0, BUDGETS_MOST)
for _, budget in ipairs(budgets) do
  local limit = limit_of(budget)
  redis.call('ZADD', waits, digits(math.max(now, last + 1)), budget)
  redis.call('ZREM', LIMITS .. 'timers', budget)
  offer(limit, now)
  if redis.call('EXISTS', LIMITS .. 'streams/' .. budget) == 1 then
    set_timer(limit, now)
  end
end
return { before, #budgets == BUDGETS_MOST and digits(last) or '' }
