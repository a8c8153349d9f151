-- The outbox of the stream: entries with a: when it was written · c: the content; and beside it the batch that is under
-- way: '<epoch> <number> <count, 0: none is under way> <held until> <relay>' (core/rules/outbox.py).
local OUTBOX = string.sub(META, 1, -5) .. 'outbox'
local BATCH = OUTBOX .. '/batch'

local function put_outgoing(content)
  redis.call('XADD', OUTBOX, '*', 'a', digits(clock()), 'c', content)
end

-- The batch under way; an epoch of nil: nothing is known of batches, or what is there cannot be read.
local function read_batch()
  local epoch, number, count, held_until, relay =
    string.match(text_at(BATCH) or '', '^(%w+) (%d+) (%d+) (%d+) (.*)$')
  if epoch and (#number > 15 or #count > 6) then
    return nil
  end
  return epoch, tonumber(number), tonumber(count), tonumber(held_until), relay
end

-- It is remembered for longer than a stream remembers the batches of a producer.
local function write_batch(epoch, number, count, held_until, relay)
  local value = table.concat({ epoch, digits(number), digits(count), digits(held_until), relay }, ' ')
  redis.call('DEL', BATCH) -- a removal first: it is not refused when memory is short
  redis.call('SET', BATCH, value, 'PX', 1200000)
end
