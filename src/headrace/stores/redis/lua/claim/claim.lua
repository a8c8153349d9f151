-- Hands out queued messages, lane by lane over all streams. In each lane, child work and the rest take turns. Lua
-- converts every reply, which costs as much as the reading itself. So the script takes at most `portion` from one lane
-- of one stream. When there is more, it answers where to go on with a plain command. It asks for no more at once than
-- have room, however large they are. It reads few bytes: a megabyte takes Lua milliseconds.
--
-- requires: claiming
-- continues: claim_all
-- keys:    for each stream its five lanes and `:meta`, the stream whose turn it is first
-- args:    group · consumer · limit · suspects · bytes · portion · for each stream q, or g: a group of a topic ·
--          how much child work · 1 or 0: child work is first · milliseconds for which the consumer is notified when
--          something comes to a stream that has nothing, or 0 · how many with constraints · the lanes after suspect,
--          in order
-- answers: seconds and microseconds of the clock, empty when nothing was read · the paused streams, from 1 ·
--          {stream, lanes} for each that uses more than the lane of normal priority · {stream, lane, entries} for each
--          read · {stream, count, bound} for each to go on with: none has more bytes than the bound · their lane,
--          or 0 · {stream, token} for each where the consumer is notified (see `wait`) · 1: nothing was done, since
--          there are lines: claim_lines.lua is to be called
if has_lines and ARGV[11] ~= '0' then
  return { '', '', paused, used, {}, {}, 0, {}, 1 }
end
