-- Writes events at the end of a topic's log, and hands them to the groups of which a member waits, so that it is
-- woken. The others draw them when they want them.

-- Copies that one script makes for all groups together; each group gets at least one event, which wakes a member.
local SPREAD_ITEMS, SPREAD_BYTES = 250, 1048576

local events, size = {}, 0

-- Writes an event behind the last one. Behind what another program has written, if the log refuses its number.
local function add_to_log(topic, event)
  local written = redis.pcall('XADD', LOG, digits(topic.last + 1) .. '-0', unpack(event))
  if type(written) == 'table' then
    topic.last = math.max(topic.last, last_in_log())
    redis.call('XADD', LOG, digits(topic.last + 1) .. '-0', unpack(event))
  end
  topic.last = topic.last + 1
end

local function write(topic, id, task, body, at, key, expiry)
  local event = { 'i', id, 't', task, 'm', body, 'a', at }
  put(event, 'k', key)
  put(event, 'e', expiry)
  add_to_log(topic, event)
  events[#events + 1] = event
  size = size + #body
end

local function groups_of_topic()
  local groups, known = {}, redis.call('HGETALL', GROUPS)
  for at = 1, #known, 2 do
    if known[at + 1] == '1' then
      groups[#groups + 1] = group_named(known[at])
      groups[#groups].name = known[at]
    end
  end
  return groups
end

-- How many of the events each group gets at once.
local function share_of(count)
  local items = math.min(#events, math.floor(SPREAD_ITEMS / count))
  if size * count > SPREAD_BYTES then
    items = math.min(items, math.floor(#events * SPREAD_BYTES / (size * count)))
  end
  return math.max(1, items)
end

-- What was written is handed to the groups that wait. `before` is the last number before it. `bounded`: the log takes no
-- more than its groups draw, so each gets one event, which wakes a member.
local function spread(topic, before, fresh, now, bounded)
  local groups = groups_of_topic()
  local share = share_of(#groups)
  local follows = topic.last == before + #events -- else groups draw what another program has written first
  for _, group in ipairs(groups) do
    if group.position and group.position > before then
      begin_anew(group)
    elseif follows and group.position == before and is_awaited(group, now) then
      local items = math.min(share, (bounded and 1 or DRAWN_AHEAD) - drawn_ahead(group))
      if items > 0 then
        take_in(group, events, 1, items, fresh, false)
      end
    end
  end
  redis.call('HSET', TOPIC, 'last', digits(topic.last))
  trim_beside(topic, groups, #events, now)
end
