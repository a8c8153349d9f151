-- Writes the events of a batch, in order, to the log of a topic, or onto its agenda when they are due later.
-- Refused whole when the server has no memory left: nothing but commands that need memory comes first.
--
-- requires: queue due message place queueing topic drawing trimming publishing moved batch
-- keys:     those of the topic
-- args:     those of shared/batch.lua · what the events are:
--             f: fresh, of one task, without options; then task, and for each event: id · body
--             a: anything; then for each event: id · task · body · key · options, empty or
--             'delay due lifetime window key' (of the unique key)
--             a and a number: the same, with the limit of the batch
-- answers:  three for each event that was not accepted: its index from 0 · d, or f: no room · the id that is stored
local shape = ARGV[8]
local limit = tonumber(string.match(shape, '^a(%d+)$'))

local found = redis.call('MGET', producer, PRODUCER)
local early = early_answer(found[1], found[2])
if early then
  return early
end

local topic = topic_now()

-- How many events the log takes: as many as the limit allows that not every live group has drawn.
local room = math.huge
if limit then
  local groups = groups_of_topic()
  trim(topic, groups, #ARGV / 5 + TRIMMED_BESIDE, now)
  local oldest, number = event_from(1)
  local drawn
  for _, group in ipairs(groups) do
    if is_live(group, now) then
      drawn = math.min(drawn or math.huge, low_water(group))
    end
  end
  local undrawn = oldest and topic.last - math.max(drawn or 0, number - 1) or 0
  room = limit - undrawn
end

local function has_room(index, id)
  room = room - 1
  if room < 0 then
    answers[#answers + 1] = index
    answers[#answers + 1] = 'f'
    answers[#answers + 1] = id
  end
  return room >= 0
end

local first, at = topic.last, digits(now)
local before, soonest

local function holder_of(key)
  local expiry, id = string.match(text_at(UNIQUE .. key) or '', '^(%d+) (.*)$')
  return expiry and tonumber(expiry) > now and id
end

local function hold(key, window, id)
  if window > 0 then
    redis.call('SET', UNIQUE .. key, digits(now + window) .. ' ' .. id, 'PX', math.ceil(window / 1000))
  end
end

local function schedule(id, task, body, key, expiry, ready)
  if not soonest then
    before = first_due()
  end
  local message = { 'i', id, 't', task, 'm', body }
  put(message, 'k', key)
  put(message, 'e', expiry)
  park(id, '', message, 'S', ready)
  soonest = math.min(soonest or ready, ready)
end

local function publish(index, id, task, body, key, options)
  local delay, due, lifetime, window, unique = string.match(options, '^(%d+) (%d+) (%d+) (%d*) ?(.*)$')
  local owner = window ~= '' and holder_of(unique)
  if owner then
    answers[#answers + 1] = index
    answers[#answers + 1] = 'd'
    answers[#answers + 1] = owner
    return
  end
  if not has_room(index, id) then
    return
  end
  local ready = math.max(now + delay, tonumber(due))
  local expiry = lifetime ~= '0' and digits(ready + lifetime)
  if ready > now then
    schedule(id, task, body, key, expiry, ready)
  else
    write(topic, id, task, body, at, key, expiry)
  end
  if window ~= '' then
    hold(unique, tonumber(window), id)
  end
end

if shape == 'f' then
  for index = 10, #ARGV, 2 do
    write(topic, ARGV[index], ARGV[9], ARGV[index + 1], at)
  end
else
  for index = 9, #ARGV, 5 do
    local id, task, body, key, options = unpack(ARGV, index, index + 4)
    key = key ~= '' and key
    if options == '' then
      if has_room((index - 9) / 5, id) then
        write(topic, id, task, body, at, key)
      end
    else
      publish((index - 9) / 5, id, task, body, key, options)
    end
  end
end

if #events > 0 then
  spread(topic, first, shape == 'f', now, limit)
end
announce_if_sooner(before, soonest)
remember_answers()
return answers
