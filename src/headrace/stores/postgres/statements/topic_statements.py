"""The statements about topics: their logs, and what is shown of them."""

from __future__ import annotations

# --- topics ----------------------------------------------------------------------------------------------

_TOPIC = """
SELECT topics.stream, first, last, last_us, retention_us, max_length, strict
FROM headrace.topics AS topics
    JOIN headrace.streams AS streams ON streams.stream = topics.stream
WHERE namespace = $1 AND kind = 'topic' AND name = $2
"""

# namespace, name
FIND_TOPIC = _TOPIC
# The topic's lock: who has it gives events their numbers, or trims the log.
LOCK_TOPIC = f"{_TOPIC} FOR UPDATE OF topics"

# stream, retention, length, strict
ADD_TOPIC = """
INSERT INTO headrace.topics (stream, retention_us, max_length, strict) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING
"""

WRITE_RULES = "UPDATE headrace.topics SET retention_us = $2, max_length = $3, strict = $4 WHERE stream = $1"

# --- the log ---------------------------------------------------------------------------------------------

# stream, the number before the first, now; ids of messages that have become due
ADD_EVENTS_THAT_ARE_DUE = """
INSERT INTO headrace.events (stream, number, at_us, id, task, expires_us, key, body)
SELECT message.stream, $2 + position, $3, message.id, task, expires_us, coalesce(unique_key, ''),
    coalesce(body, '')
FROM unnest($4::text[]) WITH ORDINALITY AS due (id, position)
    JOIN headrace.messages AS message ON message.stream + 0 = $1 AND message.id = due.id
"""

# stream, ids, now → the events that wait beside the log and are due, in the order in which they came
LOCK_STAGED = """
SELECT id FROM headrace.messages
WHERE stream + 0 = $1 AND id = ANY ($2::text[]) AND place + 0 = 8 AND at_us <= $3
ORDER BY at_us, seq FOR UPDATE
"""

# namespace, name, producer, number, time to live, offset, durability; ids, tasks, keys, bodies, lifetimes
PUBLISH_PLAIN = """
SELECT missing, answers, refused, written, trimmable FROM headrace.publish_plain(
    $1, $2, $3, $4, $5, $6, $7, $8::text[], $9::text[], $10::text[], $11::bytea[], $12::bigint[])
"""

MOVE_END = "UPDATE headrace.topics SET last = $2, last_us = $3 WHERE stream = $1"

# The latest event with this id.
FIND_EVENT = "SELECT max(number) FROM headrace.events WHERE stream + 0 = $1 AND id = $2"

READ_TIME = "SELECT at_us FROM headrace.events WHERE stream = $1 AND number = $2"

# stream, after, up to, limit → how many, their bytes, the last
MEASURE_EVENTS = """
SELECT count(*), coalesce(sum(size), 0)::bigint, max(number) FROM (
    SELECT number, octet_length(body) AS size FROM headrace.events
    WHERE stream = $1 AND number > $2 AND number <= $3 ORDER BY number LIMIT $4) AS measured
"""

# stream, after, up to
READ_EVENTS = """
SELECT number, id, task, body, at_us, expires_us, key FROM headrace.events
WHERE stream = $1 AND number > $2 AND number <= $3 ORDER BY number
"""

# stream, from, to
TRIM = "DELETE FROM headrace.events WHERE stream = $1 AND number BETWEEN $2 AND $3"

MOVE_START = "UPDATE headrace.topics SET first = $2 WHERE stream = $1"

# --- looking ---------------------------------------------------------------------------------------------

# namespace, names; NULL: all
LIST_TOPICS = """
SELECT topics.stream, name, retention_us, max_length, strict, first, last,
    coalesce((SELECT at_us FROM headrace.events WHERE stream = topics.stream AND number = first), 0),
    coalesce((SELECT at_us FROM headrace.events WHERE stream = topics.stream AND number = last), 0),
    coalesce((SELECT sum(scheduled) FROM headrace.counts WHERE stream = topics.stream), 0)::bigint
FROM headrace.streams AS streams JOIN headrace.topics AS topics ON topics.stream = streams.stream
WHERE namespace = $1 AND kind = 'topic' AND ($2::text[] IS NULL OR name = ANY ($2::text[]))
ORDER BY name
"""

# How many events of deferred keys are left before the position.
_PASSED = """(
    SELECT CASE WHEN count(*) = 0 THEN 0
        ELSE greatest(least(sum(passed)::bigint, position - greatest(min(number), first) + 1), 0) END
    FROM headrace.deferred_keys AS keys WHERE keys.stream = groups.stream)"""

# topic
DESCRIBE_GROUPS = f"""
SELECT name, position, greatest(last - greatest(position, first - 1), 0) + {_PASSED}, seen_us, ordered,
    groups.stream
FROM headrace.groups AS groups
    JOIN headrace.topics AS topics ON topics.stream = topic
    JOIN headrace.streams AS streams ON streams.stream = groups.stream
WHERE topic = $1 AND NOT removed
ORDER BY name
"""  # nosec B608 # constants only

# group
COUNT_LAG = f"""
SELECT greatest(last - greatest(position, first - 1), 0) + {_PASSED}
FROM headrace.groups AS groups JOIN headrace.topics AS topics ON topics.stream = topic
WHERE groups.stream = $1 AND NOT removed
"""  # nosec B608 # constants only

# When the oldest event that was never claimed was written: parked, in its lane, or not drawn yet.
OLDEST_UNTOUCHED = """
SELECT min(at_us) FROM (
    (SELECT since_us AS at_us FROM headrace.messages WHERE stream = $1 AND place = 1
    ORDER BY messages.at_us, seq LIMIT 1)
    UNION ALL
    SELECT min(since_us) FROM (
        SELECT since_us, worker FROM headrace.messages WHERE stream = $1 AND place = 5
        ORDER BY at_us, seq LIMIT 100) AS queued
    WHERE worker IS NULL
    UNION ALL
    (SELECT events.at_us FROM headrace.groups AS groups, LATERAL (
        SELECT at_us FROM headrace.events WHERE stream = topic AND number > least(position, (
            SELECT min(number) - 1 FROM headrace.deferred_keys AS keys WHERE keys.stream = $1))
        ORDER BY number LIMIT 1) AS events
    WHERE groups.stream = $1 AND NOT removed)) AS oldest
"""

# topic, id
READ_EVENT = """
SELECT task, body FROM headrace.events WHERE stream + 0 = $1 AND id = $2 ORDER BY number DESC LIMIT 1
"""
