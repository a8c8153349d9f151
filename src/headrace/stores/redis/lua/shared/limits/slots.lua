-- What is taken out of the lane of what is handed out gives its slots back, and leaves `:msg`.
local take_out_plain = take_out

-- Many successes at once, which are taken out already. Their ids are among the arguments, and from `at` on their
-- limits: how many budgets · for each: the budget · how many slots of it come back.
local function give_back_all(ids, count, at)
  local limits, now = {}, clock()
  for index = 1, tonumber(ARGV[at]) do
    limits[index] = limit_of(ARGV[at + 2 * index - 1])
    limits[index].several = tonumber(ARGV[at + 2 * index])
  end
  redis.call('HDEL', MESSAGES, unpack(ARGV, ids, ids + count - 1))
  gather_counts()
  local awaited = look_ahead(limits)
  for _, limit in ipairs(limits) do
    give_back_to(limit, false, now, limit.several, awaited)
  end
  write_counts()
  if redis.call('EXISTS', KEY_HOLDERS) == 1 then
    for each = ids, ids + count - 1 do
      pass_key(ARGV[each])
    end
  end
end

-- A message that was handed out leaves `:msg`.
local function release_held(id, unstarted)
  local packed = redis.call('HGET', MESSAGES, id)
  if packed then
    redis.call('HDEL', MESSAGES, id)
    give_back(get(unpacked(id, packed), 'g') or '', unstarted, clock())
  end
end

take_out = function(lane, entry, unstarted)
  local row = lane == HELD and redis.call('XRANGE', lane_key(lane), entry, entry)[1]
  take_out_plain(lane, entry)
  local id = row and get(row[2], 'i')
  local place = id and place_of(id)
  if id and (not place or place == lane .. entry) then
    release_held(id, unstarted)
  end
end
