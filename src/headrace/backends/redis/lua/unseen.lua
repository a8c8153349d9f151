-- What a consumer holds beyond the entries it has seen: handed out by a read whose answer was lost. Raises no
-- count.
--
-- requires: queue place
-- keys:     those of the queue
-- args:     consumer · limit · for each lane the last entry that was seen, or empty
-- answers:  {lane, entries} for each lane
local consumer, limit = ARGV[5], tonumber(ARGV[6])
local found = {}
for lane = 1, 5 do
  local seen = ARGV[6 + lane]
  local start = seen == '' and '-' or '(' .. seen
  local entries = {}
  if limit > 0 then
    for _, row in ipairs(redis.pcall('XPENDING', KEYS[lane], GROUP, start, '+', limit, consumer)) do
      local message = message_in(lane, row[1])
      if message then
        entries[#entries + 1] = { row[1], message }
      end
    end
  end
  limit = limit - #entries
  found[lane] = { lane, entries }
end
return found
