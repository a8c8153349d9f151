-- Describes messages by their ids.
--
-- requires: queue message place expiry describing
-- keys:     those of the queue
-- args:     ids
-- answers:  a row for each that is known (see shared/messages/describing.lua)
local now, rows = clock(), {}
for at = 5, #ARGV do
  rows[#rows + 1] = row_of_id(ARGV[at], now)
end
return rows
