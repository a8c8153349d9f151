-- What another program has written in place of a key of lines or limits is removed when a script meets it. It would
-- stop every queue with limits, and stop scripts half-way. mending.lua makes lines and order keys anew from `:msg`, and
-- workers declare limits again; what only counts begins at 0. (Everything that follows in a script calls the server
-- through this. Scripts for messages without constraints do without.)
local redis = (function(server)
  -- The prefix of a stream, if the key belongs to its lines or order keys, or '' of a key of limits; nil: another one.
  local function prefix_of_derived(key)
    local tag, name = string.match(key, '^({[^}]*}:)(.*)$')
    if not tag or string.sub(tag, -9) == ':limits}:' or string.sub(name, 1, 7) == 'limits/' then
      return tag and ''
    end
    local queue, rest = string.match(name, '^(g:[^/]*/)(.*)$') -- of a queue with a hash tag, or of a group of a topic
    if queue and not string.find(tag, ':h:', 1, true) then
      return nil
    end
    name = rest or name
    local is_line = name == 'lined' or name == 'blocked' or string.find(name, '^line/') or string.find(name, '^open/')
    local is_order = name == 'keys' or name == 'parked' or string.find(name, '^parked/')
    local is_held = name == 's:held' or string.find(name, '^s:[a-z/]+/open$')
    return (is_line or is_order or is_held) and tag .. (queue or '') or nil
  end

  -- Runs a command that failed once more, without what stood in its way.
  local function run_again(command, ...)
    local key = (command == 'XINFO' or command == 'XGROUP') and select(2, ...) or ...
    local prefix = prefix_of_derived(key)
    if prefix then
      server.call('DEL', key)
    end
    if prefix and prefix ~= '' then
      server.pcall('HSET', prefix .. 'meta', 'anew', '1')
    end
    return server.call(command, ...)
  end

  return {
    pcall = server.pcall,
    error_reply = server.error_reply,
    call = function(...)
      local reply = server.pcall(...)
      if type(reply) == 'table' and reply.err then
        if string.find(reply.err, 'WRONGTYPE', 1, true) then
          return run_again(...)
        end
        return server.call(...) -- a command that failed has changed nothing: this one raises its error
      end
      return reply
    end,
  }
end)(redis)
