-- How long events stay in a log.

-- The current state of a topic, with its rules.
local function topic_now()
  local meta = redis.call('HMGET', TOPIC, 'last', 'rules', 'look')
  local form = '^(%d+) (%S+) ([01])$'
  local age, length, strict = string.match(string.match(meta[2] or '', form) and meta[2] or RULES, form)
  return {
    last = last_number(meta[1]),
    age = tonumber(age),
    length = tonumber(length), -- nil: no bound
    strict = strict == '1',
    look = tonumber(meta[3] or 0) or 0,
  }
end

local function is_live(group, now)
  return group.seen + LIVE_FOR > now
end

-- The number up to which age or length let events go, of those from `first` to `bound`.
local function spare(topic, first, bound, now)
  local number = topic.length and math.min(topic.last - topic.length, bound) or 0
  if topic.age > 0 then
    number = math.max(number, first_since(now - topic.age + 1, first, bound) - 1)
  end
  return number
end

-- Trims at most so many events; those that `groups` have not drawn stay, as far as the topic is strict and the
-- group lives. Answers how many went, whether more can go, and up to which number they could.
local function trim(topic, groups, limit, now)
  local event, first = event_from(1)
  if not event then
    return 0, false, topic.last
  end
  -- One more than are trimmed, to know whether there are more.
  local could = spare(topic, first, math.min(topic.last, first + limit), now)
  local free = could
  if topic.strict then
    for _, group in ipairs(groups) do
      if is_live(group, now) then
        free = math.min(free, low_water(group))
      end
    end
  end
  local up_to = math.min(free, first + limit - 1)
  if up_to < first then
    return 0, false, could
  end
  redis.call('XTRIM', LOG, 'MINID', digits(up_to + 1))
  return up_to - first + 1, free > up_to, could
end

-- A little of it beside something else; the look that finds nothing old says when the next is due.
local function trim_beside(topic, groups, added, now)
  local too_long = topic.length and redis.call('XLEN', LOG) > topic.length
  if not too_long and (topic.age == 0 or now < topic.look) then
    return
  end
  local trimmed = trim(topic, groups, added + TRIMMED_BESIDE, now)
  local event = trimmed == 0 and topic.age > 0 and event_from(1)
  if event then
    redis.call('HSET', TOPIC, 'look', digits(math.max(written_at(event) + topic.age, now + 1000000)))
  end
end
