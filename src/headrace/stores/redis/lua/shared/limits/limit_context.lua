-- The names that limits.lua needs, in a script about limits. Arguments of every such script: offset of the clock ·
-- channel of notices · prefix of a queue's keys and its label, on a cluster, else empty.
local OFFSET, NOTICES, META, LABEL = tonumber(ARGV[1]), ARGV[2], ARGV[3] .. 'meta', ARGV[4]
