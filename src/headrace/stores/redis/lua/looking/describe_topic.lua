-- Describes a topic.
--
-- requires: queue topic
-- keys:     those of the topic
-- answers:  nothing when there is no such topic, else: rules, or empty · numbers of the first and last event, and
--           when they were written (0: there is none) · how many are scheduled · names of its groups
local meta = redis.call('HMGET', TOPIC, 'last', 'rules')
if not meta[1] and not meta[2] and redis.call('EXISTS', LOG, GROUPS, DUE) == 0 then
  return false
end
local last = last_number(meta[1])
local event, first = event_from(1)
local latest = redis.call('XREVRANGE', LOG, '+', '-', 'COUNT', 1)[1]
local names, known = {}, redis.call('HGETALL', GROUPS)
for at = 1, #known, 2 do
  if known[at + 1] == '1' then
    names[#names + 1] = known[at]
  end
end
return {
  meta[2] or '',
  first or last + 1,
  last,
  event and written_at(event) or 0,
  latest and written_at(latest[2]) or 0,
  redis.call('ZCARD', DUE),
  names,
}
