-- What a consumer holds beyond the entries it has seen: handed out by a read whose answer was lost. Raises no
-- count.
--
-- requires: message
-- keys:     lanes
-- args:     group · consumer · limit · bytes after which it stops · for each lane the last entry that was seen, or
--           empty
-- answers:  1 when there may be more · {index of the lane, entries} for each
local group, consumer = ARGV[1], ARGV[2]
local left, room = tonumber(ARGV[3]), tonumber(ARGV[4])
local found = {}

local function size_of(message)
  if type(message) == 'string' then
    return #message
  end
  local size = 0
  for at = 2, #message, 2 do
    size = size + #message[at]
  end
  return size
end

-- What has constraints stays in `:msg`.
local function read(key, entry)
  local found = redis.call('XRANGE', key, entry, entry)[1]
  local prefix, id = string.match(key, '^(.*)s:held$'), found and get(found[2], 'i')
  local packed = prefix and id and redis.call('HGET', prefix .. 'msg', id)
  if packed then
    found[2] = answered(id, packed)
  end
  return found
end

local function look(index)
  local seen = ARGV[4 + index]
  local start = seen == '' and '-' or '(' .. seen
  local entries = {}
  for _, row in ipairs(redis.pcall('XPENDING', KEYS[index], group, start, '+', left, consumer)) do
    local entry = room > 0 and read(KEYS[index], row[1])
    if entry then
      entries[#entries + 1] = entry
      room = room - size_of(entry[2])
    end
  end
  left = left - #entries
  if #entries > 0 then
    found[#found + 1] = { index, entries }
  end
end

for index = 1, #KEYS do
  if left > 0 and room > 0 then
    look(index)
  end
end
return { (left <= 0 or room <= 0) and 1 or 0, found }
