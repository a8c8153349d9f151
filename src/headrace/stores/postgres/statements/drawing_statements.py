"""The statements with which groups draw events from a log, and keep the order of keys."""

from __future__ import annotations

# --- drawing ---------------------------------------------------------------------------------------------

# namespace, names, how many deferred keys are too many → whether one of the groups would draw, or has no row;
# whether one has a message in a lane
WHAT_GROUPS_NEED = """
SELECT EXISTS (
    SELECT FROM unnest($2::text[]) AS wanted
        LEFT JOIN headrace.streams AS streams
            ON namespace = $1 AND kind = 'group' AND streams.name = wanted
        LEFT JOIN headrace.groups AS groups ON groups.stream = streams.stream
        LEFT JOIN headrace.topics AS topics ON topics.stream = groups.topic
    WHERE groups.stream IS NULL
        OR (NOT removed AND NOT paused AND (
            (last > position AND (
                SELECT count(*) FROM headrace.deferred_keys AS keys WHERE keys.stream = groups.stream) < $3)
            OR EXISTS (
                SELECT FROM headrace.deferred_keys AS keys
                WHERE keys.stream = groups.stream AND drawable)))
), EXISTS (
    SELECT FROM headrace.streams AS streams, unnest('{-6,-5,-4,-3,-2,2,3,4,5,6}'::smallint[]) AS searched,
        LATERAL (
            SELECT FROM headrace.messages WHERE stream = streams.stream AND place = searched LIMIT 1) AS ready
    WHERE namespace = $1 AND kind = 'group' AND streams.name = ANY ($2::text[]) AND NOT paused)
"""

# Locks groups that may draw, so that no other transaction draws for them. namespace, names, whether to leave
# out paused groups
LOCK_BEHIND = """
SELECT groups.stream
FROM headrace.groups AS groups
    JOIN headrace.streams AS streams ON streams.stream = groups.stream
    JOIN headrace.topics AS topics ON topics.stream = groups.topic
WHERE namespace = $1 AND kind = 'group' AND streams.name = ANY ($2::text[]) AND NOT removed
    AND NOT (paused AND $3)
    AND (last > position OR EXISTS (
        SELECT FROM headrace.deferred_keys AS keys WHERE keys.stream = groups.stream AND drawable))
ORDER BY groups.stream FOR UPDATE OF groups
"""

# streams, how many events each group wants
# → name, stream, topic, position, last, ordered, again, parked, ready
LIST_BEHIND = """
SELECT streams.name, groups.stream, topic, position, last, ordered, again,
    (SELECT coalesce(sum(parked), 0)::bigint FROM headrace.counts WHERE counts.stream = groups.stream),
    (SELECT count(*) FROM (
        SELECT FROM headrace.messages
        WHERE headrace.messages.stream = groups.stream AND place BETWEEN 3 AND 6 LIMIT $2) AS ready)
FROM headrace.groups AS groups
    JOIN headrace.streams AS streams ON streams.stream = groups.stream
    JOIN headrace.topics AS topics ON topics.stream = groups.topic
WHERE groups.stream = ANY ($1::integer[]) AND NOT removed
ORDER BY groups.stream
"""

# namespace, names → the names of groups that have a row, removed or not
LIST_KNOWN = """
SELECT streams.name FROM headrace.streams AS streams
    JOIN headrace.groups AS groups ON groups.stream = streams.stream
WHERE namespace = $1 AND kind = 'group' AND streams.name = ANY ($2::text[])
"""

# group, topic, after, up to, now
DRAW = """
INSERT INTO headrace.messages (stream, id, task, place, at_us, lane, priority, expires_us, body, since_us)
SELECT $1, id, task, 5, $5, 5, 1, expires_us, body, at_us
FROM headrace.events WHERE stream = $2 AND number > $3 AND number <= $4 ORDER BY number
ON CONFLICT DO NOTHING
"""

# An event that is drawn again replaces its own end record. group, topic, after, up to
FORGET_END_RECORDS = """
DELETE FROM headrace.messages WHERE stream = $1 AND place >= 11 AND id IN (
    SELECT id FROM headrace.events WHERE stream = $2 AND number > $3 AND number <= $4)
"""

HAS_END_RECORDS = """
SELECT EXISTS (SELECT FROM headrace.messages WHERE stream = $1 AND place = 11)
    OR EXISTS (SELECT FROM headrace.messages WHERE stream = $1 AND place = 12)
    OR EXISTS (SELECT FROM headrace.messages WHERE stream = $1 AND place = 13)
"""

# group, ids
FORGET_END_RECORDS_OF = """
DELETE FROM headrace.messages WHERE stream + 0 = $1 AND place + 0 >= 11 AND id = ANY ($2::text[])
"""

# group, topic, after, up to, limit
# → number, id, key, length of its body, whether the group has it (2: it waits or runs, and has or awaits its
#   key), whether its key is held
_LOOK = """
SELECT number, ahead.id, ahead.key, size,
    coalesce((SELECT 1 + (place < 10 AND unique_key IS NOT DISTINCT FROM ahead.key)::integer
        FROM headrace.messages AS message
        WHERE message.stream + 0 = $1 AND message.id = ahead.id AND place + 0 <= 10), 0),
    EXISTS (SELECT FROM headrace.unique_keys AS keys WHERE keys.stream = $1 AND keys.key = ahead.key)
FROM (
    SELECT number, id, key, octet_length(body) AS size FROM headrace.events
    WHERE stream = $2 AND number > $3 AND number <= $4 {only} ORDER BY number LIMIT $5) AS ahead
ORDER BY number
"""
LOOK_AHEAD = _LOOK.format(only="")

# LOOK_AHEAD for certain keys
LOOK_BACK = _LOOK.format(only="AND key = ANY ($6::text[])")

# group, keys → key, how many are parked
COUNT_PARKED = """
SELECT wanted, (
    SELECT count(*) FROM headrace.messages AS parked
    WHERE parked.stream = $1 AND parked.unique_key = wanted AND place = 1)
FROM unnest($2::text[]) AS wanted
"""

# group, topic, the time of ready events, the time of parked events, whether keys count; numbers, places
DRAW_CHOSEN = """
INSERT INTO headrace.messages
    (stream, id, task, place, at_us, lane, priority, expires_us, unique_key, body, since_us)
SELECT $1, events.id, task, drawn.place, CASE WHEN drawn.place = 1 THEN $4::bigint ELSE $3::bigint END, 5, 1,
    expires_us, CASE WHEN $5 THEN nullif(events.key, '') END, body, at_us
FROM unnest($6::bigint[], $7::smallint[]) AS drawn (number, place)
    JOIN headrace.events AS events ON events.stream = $2 AND events.number = drawn.number
ORDER BY drawn.number
"""

# --- order -----------------------------------------------------------------------------------------------

# streams, keys → stream, key, id: the first parked message of each free key
FIND_NEXT = """
SELECT freed.stream, freed.key, next.id
FROM unnest($1::integer[], $2::text[]) AS freed (stream, key), LATERAL (
    SELECT id FROM headrace.messages AS parked
    WHERE parked.stream = freed.stream AND parked.unique_key = freed.key AND place = 1
    ORDER BY parked.at_us, seq LIMIT 1) AS next
WHERE NOT EXISTS (
    SELECT FROM headrace.unique_keys AS keys WHERE keys.stream = freed.stream AND keys.key = freed.key)
"""

# stream, ids, now; times one microsecond apart, so that messages keep the order of the list
PARK = """
UPDATE headrace.messages AS message SET place = 1, at_us = $3 + position - 1
FROM unnest($2::text[]) WITH ORDINALITY AS replayed (id, position)
WHERE message.stream + 0 = $1 AND message.id = replayed.id
"""

# streams, ids, now
UNPARK = """
UPDATE headrace.messages AS message SET place = lane, at_us = $3
FROM unnest($1::integer[], $2::text[]) AS next (stream, id)
WHERE message.stream + 0 = next.stream AND message.id = next.id
"""

# streams, keys, ids
HAND_OVER_KEYS = """
INSERT INTO headrace.unique_keys (stream, key, id)
SELECT * FROM unnest($1::integer[], $2::text[], $3::text[])
"""

LIST_DEFERRED = "SELECT key, number, passed, drawable FROM headrace.deferred_keys WHERE stream = $1"

# group; keys, numbers, passed, drawable
WRITE_DEFERRED = """
INSERT INTO headrace.deferred_keys (stream, key, number, passed, drawable)
SELECT $1, changed.* FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::boolean[]) AS changed
ON CONFLICT (stream, key) DO UPDATE SET
    number = excluded.number, passed = excluded.passed, drawable = excluded.drawable
"""

# group, keys
DROP_DEFERRED = "DELETE FROM headrace.deferred_keys WHERE stream = $1 AND key = ANY ($2::text[])"

# streams, keys; only keys with fewer parked messages than this
NOTE_ROOM = """
UPDATE headrace.deferred_keys AS deferred SET drawable = true
FROM unnest($1::integer[], $2::text[]) AS freed (stream, key)
WHERE deferred.stream = freed.stream AND deferred.key = freed.key AND NOT drawable AND (
    SELECT count(*) FROM headrace.messages AS parked
    WHERE parked.stream = freed.stream AND parked.unique_key = freed.key AND place = 1) < $3
"""

MAKE_DRAWABLE = "UPDATE headrace.deferred_keys SET drawable = true WHERE stream = $1"

LAST_PARKED = """
SELECT at_us FROM headrace.messages WHERE stream = $1 AND place = 1 ORDER BY at_us DESC, seq DESC LIMIT 1
"""
