-- The names that limits.lua needs, in a claim from several streams. Which kind gets the odd message, the labels of the
-- streams, the notices and the offset of the clock are the last arguments.
local OFFSET, NOTICES, LABELS = tonumber(table.remove(ARGV)), table.remove(ARGV), {}
for stream = #ARGV[7], 1, -1 do
  LABELS[stream] = table.remove(ARGV)
end
local ODD = tonumber(table.remove(ARGV))
local GROUP, META, LABEL = ARGV[1], KEYS[6], LABELS[1]
