-- Makes a group, if it is not there, and draws its first events for members that wait. One that is there
-- keeps its position.
--
-- requires: queue message place queueing topic drawing moved
-- keys:     those of the group
-- args:     1 or 0: the member wants order · where it starts: new, beginning, time, position, event (which must be found
--           first) · the time, or the position
-- answers:  1 when it is new, 0 when it was there, -1 when it is not and the event must be found
local moved = moved_answer(text_at(PRODUCER))
if moved then
  return moved
end
if is_sealed() then
  return redis.error_reply('SEALED the parts of this topic take its place')
end
local wants_order, start, value = ARGV[5], ARGV[6], tonumber(ARGV[7])
local name = string.match(LABEL, '/(.*)$')
local now, group = clock(), own_group()
local last = last_number(redis.call('HGET', TOPIC, 'last'))
local known = redis.call('HGET', GROUPS, name)
local is_new = not group.position and known ~= '1'
if is_new and start == 'event' then
  return -1
end

group.ordered = note_member(META, wants_order, now)
-- Tokens from before a removal hold nothing: no entry may have the same id as one of then, not even if that was
-- in the same millisecond.
if is_new and known == '0' then
  for lane = 1, 5 do
    local entry = digits(math.floor(now / 1000) + 1) .. '-0'
    redis.pcall('XADD', KEYS[lane], entry, 'x', '')
    redis.call('XDEL', KEYS[lane], entry)
  end
end
group.position = group.position or (is_new and position_of(start, value, last)) or 0
redis.call('HSET', META, 'position', group.position, 'seen', digits(now))
redis.call('HSET', GROUPS, name, 1)
redis.call('HSETNX', TOPIC, 'last', last)
if is_awaited(group, now) then
  draw(group, last, DRAWN_ITEMS)
end
return is_new and 1 or 0
