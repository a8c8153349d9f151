-- When the next message is due.

-- The earliest due time of all that is scheduled or retrying; nil: there is none.
local function first_due()
  local due = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
  local retry = redis.call('ZRANGE', RETRY, 0, 0, 'WITHSCORES')[2]
  if due and retry then
    return math.min(tonumber(due), tonumber(retry))
  end
  return tonumber(due or retry)
end
