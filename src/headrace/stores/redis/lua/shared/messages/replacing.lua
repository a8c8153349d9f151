-- A new message takes the place of the waiting message that holds its unique key, and gets its id. (The functions are in
-- one table, since a script may have 200 local names.)
local replacing = {}

-- Writes the places of the messages that a batch has added so far, so that they can be replaced.
function replacing.write_places(added)
  if #added > 0 then
    redis.call('HSET', IDS, unpack(added))
    call_once()
  end
  return {}
end

-- The holder of a key, if it waits: {id, place, flags, counts: whether it takes up room}; nil: it runs or is over.
function replacing.owner(id, key)
  local place, flags, message, own = message_with(id, key)
  if not own then
    return nil
  end
  local lane, entry = entry_at(place)
  if lane and holder(lane, entry) then
    return nil
  end
  return { id = id, place = place, flags = flags, counts = place ~= 'R' }
end

-- Takes a message out of where it waits. Answers the flags that stay: a caller may wait for its end.
function replacing.take_away(replaced)
  local lane, entry = entry_at(replaced.place)
  if lane then
    redis.call('XDEL', lane_key(lane), entry)
  else
    unpark(replaced.id, replaced.place)
  end
  pass_key(replaced.id)
  forget_asides(replaced.id, replaced.flags)
  return string.find(replaced.flags, 'w', 1, true) and 'w' or ''
end

-- A relay may send the message again after long: then its id is known.
function replacing.note(kind, id, task, ttl)
  if kind == 'R' then
    write_end_record(id, clock(), ttl, end_record('cancelled', task))
  end
end
