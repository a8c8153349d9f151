-- Gathers the counts of limits, so that each is read and written once in a script, many with one command. Such a script
-- calls the first two functions.
local function gather_counts()
  known_counts.gathered = known_counts.gathered or {}
end

-- Removals come first: they are not refused when memory is short.
local function write_all(name, written, gone)
  local is_prefix = string.sub(name, -1) == '/'
  for at = 1, is_prefix and #gone or 0 do
    gone[at] = name .. gone[at]
  end
  for at = 1, is_prefix and #written or 0, 2 do
    written[at] = name .. written[at]
  end
  if #gone > 0 and is_prefix then
    redis.call('DEL', unpack(gone))
  elseif #gone > 0 then
    redis.call('HDEL', name, unpack(gone))
  end
  if #written > 0 and is_prefix then
    redis.call('MSET', unpack(written))
  elseif #written > 0 then
    redis.call('HSET', name, unpack(written))
  end
end

local function write_counts()
  local names = known_counts.gathered or {}
  known_counts.gathered = nil
  for name, fields in pairs(names) do
    local written, gone, known = {}, {}, known_counts[name]
    for field in pairs(fields) do
      if known[field] > 0 then
        written[#written + 1] = field
        written[#written + 1] = known[field]
      else
        gone[#gone + 1] = field
      end
    end
    write_all(name, written, gone)
  end
end

-- Reads counts that are asked for next.
local function know_counts(prefix, fields)
  local known, keys, unknown = known_counts[prefix] or {}, {}, {}
  known_counts[prefix] = known
  for _, field in ipairs(fields) do
    if not known[field] then
      unknown[#unknown + 1] = field
      keys[#keys + 1] = prefix .. field
    end
  end
  if #keys > 1 then
    for index, count in ipairs(redis.call('MGET', unpack(keys))) do
      known[unknown[index]] = number_in(count) or 0
    end
  end
end

-- Reads the counts of limits whose slots come back. Answers whether any line waits for one of them.
local function look_ahead(limits)
  local budgets, keyed, waiting = {}, {}, {}
  for index, limit in ipairs(limits) do
    budgets[index], waiting[index] = limit.budget, LIMITS .. 'streams/' .. limit.budget
    keyed[#keyed + 1] = limit.key ~= '' and limit.budget or nil
  end
  know_counts(LIMITS .. 'runs/', budgets)
  know_counts(LIMITS .. 'active/', keyed)
  return #waiting > 0 and redis.call('EXISTS', unpack(waiting)) > 0
end
