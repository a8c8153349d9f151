-- Notes that groups have a living member, brings back those that were lost, and trims the log of their topic.
--
-- requires: queue message place queueing topic drawing trimming publishing
-- keys:     those of the topic
-- args:     limit · for each group: name · 1, 0 or empty: its member wants order
-- answers:  how many events were trimmed · 1 when there are more to trim · names of groups that came back · of live
--           groups for whose sake events stay · of groups that hold up nothing any more, though they have not
--           drawn them · of those whose live members disagree about their order · of those that are stalled
local limit, now = tonumber(ARGV[5]), clock()
local topic = topic_now()
local back, disputed, stalled = {}, {}, {}
for at = 6, #ARGV, 2 do
  local group = group_named(ARGV[at])
  if redis.call('HGET', GROUPS, ARGV[at]) ~= '0' then
    local _, is_disputed = note_member(group.meta, ARGV[at + 1], now)
    redis.call('HSET', group.meta, 'seen', digits(now))
    redis.call('HSET', GROUPS, ARGV[at], 1)
    if not group.position then
      back[#back + 1] = ARGV[at]
      redis.call('HSET', group.meta, 'position', 0)
    end
    if group.deferring >= KEYS_DEFERRED_MOST and group.position < topic.last then
      stalled[#stalled + 1] = ARGV[at]
    end
    if is_disputed then
      disputed[#disputed + 1] = ARGV[at]
    end
  end
end
redis.call('HSETNX', TOPIC, 'last', digits(topic.last))

local groups = groups_of_topic()
local trimmed, more, could = trim(topic, groups, limit, now)
local _, first = event_from(1)
local holding, passed = {}, {}
for _, group in ipairs(topic.strict and groups or {}) do
  if low_water(group) < could then
    if not is_live(group, now) then
      passed[#passed + 1] = group.name
    elseif first and first <= could then
      holding[#holding + 1] = group.name
    end
  end
end
return { trimmed, more and 1 or 0, back, holding, passed, disputed, stalled }
