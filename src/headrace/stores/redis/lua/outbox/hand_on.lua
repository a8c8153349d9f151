-- Removes the entries of the batch under way from the outbox, except some, which come first in the next batch.
-- Nothing happens when another batch is under way.
--
-- requires: queue outbox
-- keys:     those of the queue
-- args:     epoch · number · the indices, from 0, of the entries that stay
local epoch, number, count = read_batch()
if epoch ~= ARGV[5] or number ~= tonumber(ARGV[6]) or count == 0 then
  return 0
end
local is_kept = {}
for at = 7, #ARGV do
  is_kept[tonumber(ARGV[at])] = true
end
for index, entry in ipairs(redis.call('XRANGE', OUTBOX, '-', '+', 'COUNT', count)) do
  if not is_kept[index - 1] then
    redis.call('XDEL', OUTBOX, entry[1])
  end
end
if redis.call('XLEN', OUTBOX) == 0 then
  redis.call('DEL', OUTBOX)
end
write_batch(epoch, number, 0, 0, '')
return 1
