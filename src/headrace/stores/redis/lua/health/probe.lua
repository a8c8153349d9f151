-- Tries every command that the backend needs, with arguments that make it fail or on keys that hold nothing, so
-- that nothing is changed: only whether the user may run it is asked.
--
-- keys:    one of a queue's · one of the namespace's, both never used
-- args:    channel
-- answers: {command, error} for each that was refused, for whatever reason
local queue, shared, channel = KEYS[1], KEYS[2], ARGV[1]
local BAD = 'no-entry' -- neither an entry's id nor a number

local tries = {
  { 'DEL', queue }, { 'EXISTS', queue }, { 'GET', queue }, { 'MGET', queue }, { 'SET', queue, '', 'PX', '0' },
  { 'PEXPIRE', queue, '1' }, { 'HDEL', shared, '' }, { 'HEXISTS', queue, '' }, { 'HGET', queue, '' },
  { 'HGETALL', shared }, { 'HLEN', queue }, { 'HMGET', queue, '' }, { 'HSET', shared, 'a', 'b', 'c' },
  { 'HSET', queue, 'a', 'b', 'c' }, { 'HVALS', shared }, { 'SMEMBERS', shared }, { 'SREM', shared, '' },
  { 'SCAN', '0', 'COUNT', BAD }, { 'ZADD', queue, BAD, '' }, { 'ZCARD', queue }, { 'ZCOUNT', queue, '0', '0' },
  { 'ZRANGE', queue, '0', '0' }, { 'ZRANGEBYSCORE', queue, '0', '0' }, { 'ZREM', queue, '' },
  { 'ZSCORE', queue, '' }, { 'XACK', queue, '', BAD }, { 'XADD', queue, BAD, '', '' },
  { 'XCLAIM', queue, '', '', '0', BAD }, { 'XDEL', queue, BAD }, { 'XLEN', queue },
  { 'XGROUP', 'CREATE', queue, '', BAD }, { 'XGROUP', 'DELCONSUMER', queue, '', '' },
  { 'XINFO', 'CONSUMERS', queue, '' }, { 'XINFO', 'GROUPS', queue }, { 'XINFO', 'STREAM', queue },
  { 'XPENDING', queue, '' }, { 'XRANGE', queue, BAD, BAD }, { 'TIME' }, { 'PUBLISH', channel, '' },
  { 'XREADGROUP', 'GROUP', '', '', 'STREAMS', queue, BAD }, { 'XREAD', 'STREAMS', queue, BAD },
  { 'XREVRANGE', queue, BAD, BAD }, { 'XTRIM', queue, 'MAXLEN', BAD },
  { 'ZRANK', queue, '' }, { 'ZREVRANGE', queue, '0', '0' }, { 'ZREVRANK', queue, '' },
  { 'HSETNX', queue, '', BAD, '' }, { 'HSCAN', queue, BAD }, { 'MSET', queue, '', queue },
  { 'HINCRBY', shared, '', BAD }, { 'EXPIRE', shared, BAD }, { 'HSTRLEN', queue, '' },
}

local refused = {}
for _, words in ipairs(tries) do
  local reply = redis.pcall(unpack(words))
  if type(reply) == 'table' and reply.err then
    local first = words[1]
    local two = first == 'XGROUP' or first == 'XINFO'
    refused[#refused + 1] = { two and first .. ' ' .. words[2] or first, reply.err }
  end
end
return refused
