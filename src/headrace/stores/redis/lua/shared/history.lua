-- The history of the stream: the ids of ended messages by the time of their end; of each a head, '<kept until, 0: its
-- time is not limited> <size> <status> <task>', and its content. The field `history` of META counts their sizes.
local HISTORY = string.sub(META, 1, -5) .. 'history'
local HEADS, CONTENTS = HISTORY .. '/heads', HISTORY .. '/contents'

local function put_history(id, ended, kept_until, size, status, task, content)
  if (tonumber(redis.call('ZSCORE', HISTORY, id) or '') or 0) > tonumber(ended) then
    return -- the job has ended again meanwhile
  end
  local before = string.match(redis.call('HGET', HEADS, id) or '', '^%d+ (%d+) ')
  redis.call('ZADD', HISTORY, ended, id)
  redis.call('HSET', HEADS, id, table.concat({ kept_until, size, status, task }, ' '))
  redis.call('HSET', CONTENTS, id, content)
  redis.call('HINCRBY', META, 'history', tonumber(size) - (tonumber(before) or 0))
end

-- Forgets the oldest entries: those beyond the limits (nil: there is none), and those whose time has passed.
local function trim_history(entries, bytes, most)
  local held, size = redis.call('ZCARD', HISTORY), tonumber(redis.call('HGET', META, 'history') or 0) or 0
  local now = clock()
  for _, id in ipairs(redis.call('ZRANGE', HISTORY, 0, most - 1)) do
    local kept_until, its_size = string.match(redis.call('HGET', HEADS, id) or '', '^(%d+) (%d+) ')
    kept_until = tonumber(kept_until) or 0
    local is_past = kept_until > 0 and kept_until <= now
    if not is_past and not (entries and held > entries) and not (bytes and size > bytes) then
      break
    end
    redis.call('ZREM', HISTORY, id)
    redis.call('HDEL', HEADS, id)
    redis.call('HDEL', CONTENTS, id)
    held, size = held - 1, size - (tonumber(its_size) or 0)
  end
  if held <= 0 then
    redis.call('HDEL', META, 'history')
  else
    redis.call('HSET', META, 'history', digits(size))
  end
end
