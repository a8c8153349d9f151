-- The batch of a producer. A repeat is recognised by its number, and answered as before; a sealed part takes nothing.
-- Arguments of every script that takes a batch, after those of queue.lua: producer and chunk · number of the batch ·
-- milliseconds to remember the answers. `answers` has three values for each message that was not accepted.
-- A script that continues append.lua may have no batch, and then no such arguments.
local producer, number, memory = PRODUCER .. (ARGV[5] or ''), ARGV[6], ARGV[7]
local now = clock()
local answers = {}

-- The answer to a batch that is not stored; nil: it is to be stored. `last` is what was remembered under `producer`.
-- A part that is sealed has a value at the prefix itself, where no producer has one.
local function early_answer(last, sealed)
  if last then
    local of, expiry, before = string.match(last, '^(%d+) (%d+) (.*)$')
    if of and tonumber(expiry) > now then
      if of == number then
        local is_read, earlier = pcall(cmsgpack.unpack, before)
        return before ~= '' and is_read and type(earlier) == 'table' and earlier or {}
      elseif tonumber(of) > tonumber(number) then
        return redis.error_reply('STALE a later batch of this producer was already taken')
      end
    end
  end
  if sealed and sealed ~= '1' then
    return moved_answer(sealed, string.sub(ARGV[5] or '', 1, 7) == 'outbox:')
  end
  -- Schedules stay where they are, whatever is sealed.
  if sealed and string.sub(ARGV[5], 1, 9) ~= 'schedule:' then
    return redis.error_reply('SEALED this part takes no more')
  end
end

local function remember_answers()
  local packed = #answers > 0 and cmsgpack.pack(answers) or ''
  redis.call('SET', producer, number .. ' ' .. digits(now + memory * 1000) .. ' ' .. packed, 'PX', memory)
end
