-- Settles as another script does, which is the function `settle` here (scripts.py). Puts what these settlements
-- forward into the outbox of the stream, and their records into its history.
--
-- requires: queue outbox history
-- keys:     those of the queue
-- args:     those of the other script; then for each record: index of its settlement · id · ended · kept until · size ·
--           status · task · content; the number of records; for each outgoing message: index of its settlement ·
--           content; the number of outgoing messages
-- answers:  those of the other script: the indices, from 0, of settlements that were refused
local function take_rows(width)
  local rows = {}
  for at = tonumber(table.remove(ARGV)), 1, -1 do
    local row = {}
    for word = width, 1, -1 do
      row[word] = table.remove(ARGV)
    end
    rows[at] = row
  end
  return rows
end

local outgoing = take_rows(2)
local records = take_rows(8)
redis.call('XLEN', OUTBOX) -- where it is of another type it ends here, before anything is settled
local refused, is_refused = settle(), {}
for _, index in ipairs(refused) do
  is_refused[index < 0 and -1 - index or index] = true -- see finish.lua
end
for _, row in ipairs(outgoing) do
  if not is_refused[tonumber(row[1])] then
    put_outgoing(row[2])
  end
end
for _, row in ipairs(records) do
  if not is_refused[tonumber(row[1])] then
    pcall(put_history, unpack(row, 2)) -- a history that cannot be written holds up no settlement
  end
end
return refused
