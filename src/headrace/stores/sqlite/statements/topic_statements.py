"""The statements about topics and groups. For messages, the remarks in message_statements.py apply here too.

The events of a topic are the range of numbers from `stream << 40` on (migrations/04-topics.sql).
"""

from __future__ import annotations

# --- topics ----------------------------------------------------------------------------------------------

FIND_TOPIC = """
SELECT topics.stream, first, last, last_us, retention_us, max_length, strict, sealed
FROM headrace_streams AS streams CROSS JOIN headrace_topics AS topics
WHERE namespace = ? AND kind = 'topic' AND name = ? AND topics.stream = streams.stream
"""

ADD_TOPIC = """
INSERT INTO headrace_topics (stream, retention_us, max_length, strict) VALUES (?, ?, ?, ?)
RETURNING stream, first, last, last_us, retention_us, max_length, strict
"""

WRITE_RULES = "UPDATE headrace_topics SET retention_us = ?2, max_length = ?3, strict = ?4 WHERE stream = ?1"

IS_BEHIND = """
SELECT EXISTS (
    SELECT 1 FROM headrace_streams AS streams CROSS JOIN headrace_topics AS topics
    WHERE namespace = ? AND kind = 'topic' AND name = ? AND topics.stream = streams.stream AND last > ?)
"""

# --- the log ---------------------------------------------------------------------------------------------

# [[id, task, expires_us, key, start and length of the body], ...], the bodies, the first event, now
ADD_EVENTS = """
INSERT INTO headrace_events (event, stream, at_us, id, task, expires_us, key, body)
SELECT ?4 + added.key, ?1, ?5, value ->> 0, value ->> 1, value ->> 2, value ->> 3,
    coalesce(substr(?3, value ->> 4, value ->> 5), x'')
FROM json_each(?2) AS added
"""

# [seq, ...] of messages that have become due
ADD_EVENTS_THAT_ARE_DUE = """
INSERT INTO headrace_events (event, stream, at_us, id, task, expires_us, key, body)
SELECT ?2 + due.key, stream, ?3, message.id, task, expires_us, coalesce(unique_key, ''), coalesce(body, x'')
FROM json_each(?1) AS due CROSS JOIN headrace_messages AS message WHERE seq = due.value
"""

MOVE_END = "UPDATE headrace_topics SET last = ?2, last_us = ?3 WHERE stream = ?1"

# The latest event with this id.
FIND_EVENT = "SELECT max(event) FROM headrace_events WHERE stream = ? AND id = ?"

# The time of the first event in a part of the log.
READ_TIME = "SELECT at_us FROM headrace_events WHERE event BETWEEN ? AND ? ORDER BY event LIMIT 1"

# The last event before another.
READ_END = "SELECT max(event) FROM headrace_events WHERE event < ?"

# The number of events in a part of the log, their bytes, and the last event.
MEASURE_EVENTS = """
SELECT count(*), coalesce(sum(size), 0), max(event) FROM (
    SELECT event, length(body) AS size FROM headrace_events
    WHERE event > ? AND event <= ? ORDER BY event LIMIT ?)
"""

# → [[event, id, task, at_us, expires_us, key, length of its body], ...], the bodies
READ_EVENTS = """
SELECT
    json_group_array(json_array(event, id, task, at_us, expires_us, key, length(body))),
    CAST(group_concat(body, '') AS BLOB)
FROM (SELECT * FROM headrace_events WHERE event > ? AND event <= ? ORDER BY event)
"""

TRIM = "DELETE FROM headrace_events WHERE event BETWEEN ? AND ?"

MOVE_START = "UPDATE headrace_topics SET first = ?2 WHERE stream = ?1"

# --- groups ----------------------------------------------------------------------------------------------

FIND_GROUP = """
SELECT groups.stream, topic, position, removed, ordered, wanted_us, unwanted_us
FROM headrace_streams AS streams CROSS JOIN headrace_groups AS groups
WHERE namespace = ? AND kind = 'group' AND name = ? AND groups.stream = streams.stream
"""

WRITE_GROUP = """
INSERT INTO headrace_groups (stream, topic, position, seen_us, ordered) VALUES (?1, ?2, ?3, ?4, 0)
ON CONFLICT DO UPDATE SET
    position = excluded.position, seen_us = excluded.seen_us, ordered = 0, wanted_us = 0, unwanted_us = 0,
    again = 0, removed = 0
"""

ORDER_GROUP = "UPDATE headrace_groups SET ordered = ?2, wanted_us = ?3, unwanted_us = ?4 WHERE stream = ?1"

SEE_GROUP = "UPDATE headrace_groups SET seen_us = ?2 WHERE stream = ?1"

MOVE_GROUP = "UPDATE headrace_groups SET position = ?2 WHERE stream = ?1"

# Up to `again`, the group may find events that it has already drawn.
RESET_GROUP = "UPDATE headrace_groups SET position = ?2, again = max(again, position) WHERE stream = ?1"

MEET_NOTHING_AGAIN = "UPDATE headrace_groups SET again = 0 WHERE stream = ?"

# Messages with a key that were never claimed, after an event of the topic: [[seq, place, key, id], ...]
LIST_UNTOUCHED = """
SELECT json_group_array(json_array(seq, place, unique_key, message.id))
FROM json_each('[1, 5]') AS waiting CROSS JOIN headrace_messages AS message
WHERE message.stream = ?1 AND place = waiting.value AND worker = 1 << 40 AND unique_key IS NOT NULL
    AND EXISTS (
        SELECT 1 FROM headrace_events AS events
        WHERE events.stream = ?2 AND events.id = message.id AND event > ?3)
"""

IS_STALLED = """
SELECT last > position AND (SELECT count(*) FROM headrace_deferred_keys AS keys WHERE keys.stream = ?1) >= ?2
FROM headrace_groups AS groups CROSS JOIN headrace_topics AS topics
WHERE groups.stream = ?1 AND topics.stream = topic
"""

FORGET_DEFERRED = "DELETE FROM headrace_deferred_keys WHERE stream = ?"

LIST_IDS = """
SELECT json_group_array(id) FROM headrace_messages INDEXED BY headrace_messages_place
WHERE stream = ? AND place <= 9
"""

# → [stream, name, the number after which something may be left to draw, seen_us] of each of a topic's groups
LIST_GROUPS = """
SELECT groups.stream, name,
    min(position, coalesce((
        SELECT min(number) - 1 FROM headrace_deferred_keys AS keys
        WHERE keys.stream = groups.stream), position)),
    seen_us
FROM headrace_groups AS groups CROSS JOIN headrace_streams AS streams
WHERE topic = ? AND NOT removed AND streams.stream = groups.stream
"""

# --- drawing ---------------------------------------------------------------------------------------------

# [name, ...], how many deferred keys are too many: whether one of the groups would draw, or has no row.
IS_A_GROUP_BEHIND = """
SELECT EXISTS (
    SELECT 1 FROM json_each(?2) AS wanted
        LEFT JOIN headrace_streams AS streams
            ON namespace = ?1 AND kind = 'group' AND streams.name = wanted.value
        LEFT JOIN headrace_groups AS groups ON groups.stream = streams.stream
        LEFT JOIN headrace_topics AS topics ON topics.stream = groups.topic
    WHERE groups.stream IS NULL
        OR (NOT removed AND NOT paused AND (
            (last > position AND (
                SELECT count(*) FROM headrace_deferred_keys AS keys WHERE keys.stream = groups.stream) < ?3)
            OR EXISTS (
                SELECT 1 FROM headrace_deferred_keys AS keys
                WHERE keys.stream = groups.stream AND drawable))))
"""

# [name, ...], how many events each group wants, whether to leave out paused groups
# → [its index, stream, the topic's stream, position, last, ordered, again, parked, how many are ready], ...
LIST_BEHIND = """
SELECT wanted.key, groups.stream, topic, position, last, ordered, again, parked,
    (SELECT count(*) FROM (
        SELECT 1 FROM headrace_messages
        WHERE headrace_messages.stream = groups.stream AND place BETWEEN 3 AND 6 LIMIT ?3))
FROM json_each(?2) AS wanted CROSS JOIN headrace_streams AS streams
    CROSS JOIN headrace_groups AS groups CROSS JOIN headrace_topics AS topics
WHERE namespace = ?1 AND kind = 'group' AND streams.name = wanted.value AND groups.stream = streams.stream
    AND topics.stream = groups.topic AND NOT removed AND NOT (paused AND ?4)
    AND (last > position OR EXISTS (
        SELECT 1 FROM headrace_deferred_keys AS keys WHERE keys.stream = groups.stream AND drawable))
"""

# [name, ...] → the indexes of groups that have a row, removed or not
LIST_KNOWN = """
SELECT json_group_array(wanted.key) FROM json_each(?2) AS wanted CROSS JOIN headrace_streams AS streams
    CROSS JOIN headrace_groups AS groups
WHERE namespace = ?1 AND kind = 'group' AND streams.name = wanted.value AND groups.stream = streams.stream
"""

# The stream, part of the log, time, number
DRAW = """
INSERT INTO headrace_messages
    (stream, id, task, place, at_us, lane, priority, expires_us, body, since_us, claim, worker)
SELECT ?1, id, task, 5, ?4, 5, 1, expires_us, body, at_us, ?5, 1 << 40
FROM headrace_events WHERE event > ?2 AND event <= ?3 ORDER BY event ON CONFLICT DO NOTHING
"""

HAS_END_RECORDS = """
SELECT EXISTS (SELECT 1 FROM headrace_messages WHERE stream = ? AND place BETWEEN 11 AND 13)
"""

# An event that is drawn again replaces its own end record.
FORGET_END_RECORDS = """
DELETE FROM headrace_messages INDEXED BY headrace_messages_id WHERE stream = ?1 AND place >= 11 AND id IN (
    SELECT id FROM headrace_events WHERE event > ?2 AND event <= ?3)
"""

# [id, ...]
FORGET_END_RECORDS_OF = """
DELETE FROM headrace_messages INDEXED BY headrace_messages_id WHERE stream = ?1 AND place >= 11 AND id IN (
    SELECT value FROM json_each(?2))
"""

# The stream, part of the log
# → [[event, id, key, length of its body, whether the group has it (2: it waits or runs, and has or awaits its
#   key), whether its key is held], ...]
LOOK_AHEAD = """
SELECT json_group_array(json_array(
    event, ahead.id, ahead.key, size,
    coalesce((SELECT 1 + (place < 10 AND unique_key IS ahead.key) FROM headrace_messages AS message
        WHERE message.stream = ?1 AND message.id = ahead.id AND place <= 10), 0),
    EXISTS (SELECT 1 FROM headrace_unique_keys AS keys WHERE keys.stream = ?1 AND keys.key = ahead.key)))
FROM (
    SELECT event, id, key, length(body) AS size FROM headrace_events
    WHERE event > ?2 AND event <= ?3 ORDER BY event LIMIT ?4) AS ahead
"""

# LOOK_AHEAD for certain keys: [key, ...]
LOOK_BACK = LOOK_AHEAD.replace(
    "event <= ?3 ORDER", "event <= ?3 AND key IN (SELECT value FROM json_each(?5)) ORDER"
)

# [key, ...] → [[key, how many are parked], ...]
COUNT_PARKED = """
SELECT json_group_array(json_array(wanted.value, (
    SELECT count(*) FROM headrace_messages AS parked
    WHERE parked.stream = ?1 AND parked.unique_key = wanted.value AND place = 1)))
FROM json_each(?2) AS wanted
"""

# [[event, its place], ...], the time of ready events, the time of parked events, number, whether keys count
DRAW_CHOSEN = """
INSERT INTO headrace_messages
    (stream, id, task, place, at_us, lane, priority, expires_us, unique_key, body, since_us, claim, worker)
SELECT ?1, events.id, task, drawn.value ->> 1, iif(drawn.value ->> 1 = 1, ?4, ?3), 5, 1, expires_us,
    iif(?6, nullif(events.key, ''), NULL), body, at_us, ?5, 1 << 40
FROM json_each(?2) AS drawn CROSS JOIN headrace_events AS events WHERE event = drawn.value ->> 0
"""

# --- order -----------------------------------------------------------------------------------------------

# [[stream, key], ...] → [[seq, stream, key, id], ...]: the first parked message of each free key
FIND_NEXT = """
SELECT json_group_array(json_array(seq, message.stream, unique_key, message.id))
FROM json_each(?) AS freed CROSS JOIN headrace_messages AS message
WHERE seq = (
        SELECT seq FROM headrace_messages AS parked
        WHERE parked.stream = freed.value ->> 0 AND parked.unique_key = freed.value ->> 1 AND place = 1
        ORDER BY parked.at_us, seq LIMIT 1)
    AND NOT EXISTS (
        SELECT 1 FROM headrace_unique_keys AS keys
        WHERE keys.stream = freed.value ->> 0 AND keys.key = freed.value ->> 1)
"""

# [seq, ...]; times one microsecond apart, so that messages keep the order of the list
PARK = """
UPDATE headrace_messages SET place = 1, at_us = ?2 + replayed.key
FROM json_each(?1) AS replayed WHERE seq = replayed.value
"""

# [seq, ...]
UNPARK = (
    "UPDATE headrace_messages SET place = lane, at_us = ?2 WHERE seq IN (SELECT value FROM json_each(?1))"
)

# [[stream, key, id], ...]
HAND_OVER_KEYS = """
INSERT INTO headrace_unique_keys (stream, key, id)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)
"""

LIST_DEFERRED = """
SELECT json_group_array(json_array(key, number, passed, drawable))
FROM headrace_deferred_keys WHERE stream = ?
"""

# [[key, number, passed, drawable], ...]
WRITE_DEFERRED = """
INSERT OR REPLACE INTO headrace_deferred_keys (stream, key, number, passed, drawable)
SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?2)
"""

# [key, ...]
DROP_DEFERRED = """
DELETE FROM headrace_deferred_keys WHERE stream = ?1 AND key IN (SELECT value FROM json_each(?2))
"""

# [[stream, key], ...]; only keys with fewer parked messages than this
NOTE_ROOM = """
UPDATE headrace_deferred_keys SET drawable = 1
WHERE (stream, key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1)) AND NOT drawable AND (
    SELECT count(*) FROM headrace_messages AS parked
    WHERE parked.stream = headrace_deferred_keys.stream
        AND parked.unique_key = headrace_deferred_keys.key AND place = 1) < ?2
"""

MAKE_ALL_DRAWABLE = "UPDATE headrace_deferred_keys SET drawable = 1 WHERE stream = ?"

LAST_PARKED = "SELECT max(at_us) FROM headrace_messages WHERE stream = ? AND place = 1"

# --- looking ---------------------------------------------------------------------------------------------

# [name, ...]; NULL: all
LIST_TOPICS = """
SELECT topics.stream, name, retention_us, max_length, strict, first, last,
    coalesce((SELECT at_us FROM headrace_events WHERE event = (topics.stream << 40) + first), 0),
    coalesce((SELECT at_us FROM headrace_events WHERE event = (topics.stream << 40) + last), 0),
    scheduled
FROM headrace_streams AS streams CROSS JOIN headrace_topics AS topics
WHERE namespace = ?1 AND kind = 'topic' AND (?2 IS NULL OR name IN (SELECT value FROM json_each(?2)))
    AND topics.stream = streams.stream
ORDER BY name
"""

# How many events of deferred keys are left before the position.
_PASSED = """coalesce((
    SELECT max(min(sum(passed), position - max(min(number), first) + 1), 0)
    FROM headrace_deferred_keys AS keys WHERE keys.stream = groups.stream), 0)"""

DESCRIBE_GROUPS = f"""
SELECT name, position, max(last - max(position, first - 1), 0) + {_PASSED}, seen_us, ordered, groups.stream
FROM headrace_groups AS groups CROSS JOIN headrace_topics AS topics CROSS JOIN headrace_streams AS streams
WHERE topic = ? AND NOT removed AND topics.stream = topic AND streams.stream = groups.stream
"""  # nosec B608 # constants only

COUNT_LAG = f"""
SELECT max(last - max(position, first - 1), 0) + {_PASSED}
FROM headrace_groups AS groups CROSS JOIN headrace_topics AS topics
WHERE groups.stream = ? AND NOT removed AND topics.stream = topic
"""  # nosec B608 # constants only

# When the oldest event that was never claimed was written: parked, in its lane, or not drawn yet.
OLDEST_UNTOUCHED = """
SELECT min(at_us) FROM (
    SELECT (SELECT since_us FROM headrace_messages WHERE stream = ?1 AND place = 1
        ORDER BY at_us, seq LIMIT 1) AS at_us
    UNION ALL
    SELECT min(since_us) FROM (
        SELECT since_us, worker FROM headrace_messages WHERE stream = ?1 AND place = 5
        ORDER BY at_us, seq LIMIT 100)
    WHERE worker = 1 << 40
    UNION ALL
    SELECT (
        SELECT at_us FROM headrace_groups AS groups CROSS JOIN headrace_events
        WHERE groups.stream = ?1 AND NOT removed AND event < (topic + 1) << 40
            AND event > (topic << 40) + min(position, coalesce((
                SELECT min(number) - 1 FROM headrace_deferred_keys AS keys WHERE keys.stream = ?1), position))
        ORDER BY event LIMIT 1))
"""

READ_EVENT = """
SELECT task, body FROM headrace_events WHERE event = (
    SELECT max(event) FROM headrace_events WHERE stream = ? AND id = ?)
"""
