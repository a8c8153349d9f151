-- Looks for an event by its id in a part of a log.
--
-- requires: queue topic
-- keys:     those of the topic
-- args:     id · number to begin with · how many to look at · bytes of bodies after which it stops
-- answers:  its number, or 0 · the number to go on with, 0: the log is at its end
local id, from, budget, bytes = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
while budget > 0 and bytes > 0 do
  local rows = redis.call('XRANGE', LOG, from, '+', 'COUNT', 10)
  for _, row in ipairs(rows) do
    local number = number_of(row[1])
    if row[2][2] == id then
      return { number, 0 }
    end
    from, budget, bytes = number + 1, budget - 1, bytes - #(row[2][6] or '')
  end
  if #rows < 10 then
    return { 0, 0 }
  end
end
return { 0, from }
