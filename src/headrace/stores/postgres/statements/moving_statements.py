"""The statements about moving: the seal of the store, pages of streams that were set aside, their import."""

from __future__ import annotations

from . import limit_statements

# --- the seal --------------------------------------------------------------------------------------------

READ_SEAL = "SELECT seal FROM headrace.seals WHERE namespace = $1"

WRITE_SEAL = """
INSERT INTO headrace.seals AS seals (namespace, target, draining, seal) VALUES ($1, $2, $3, $4)
ON CONFLICT (namespace) DO UPDATE
    SET target = excluded.target, draining = excluded.draining, seal = excluded.seal
"""

FORGET_SEAL = "DELETE FROM headrace.seals WHERE namespace = $1"

SEAL_STREAMS = """
UPDATE headrace.streams SET sealed = CASE WHEN paused THEN 2 ELSE 1 END, paused = true
WHERE namespace = $1 AND sealed = 0
"""

UNSEAL_STREAMS = """
UPDATE headrace.streams SET paused = sealed = 2, sealed = 0 WHERE namespace = $1 AND sealed > 0
"""

SET_ASIDE = "UPDATE headrace.streams SET namespace = $2 WHERE namespace = $1"

# The transactions of other sessions in this database that are open now. Each has a lock on its own id. The
# server's own processes have no user: a vacuum of a large table takes hours, and adds no jobs.
OPEN_TRANSACTIONS = """
SELECT locks.virtualxid FROM pg_locks AS locks JOIN pg_stat_activity AS sessions USING (pid)
WHERE locktype = 'virtualxid' AND granted AND datname = current_database() AND pid <> pg_backend_pid()
    AND usesysid IS NOT NULL
"""

# Topics before their groups.
LIST_ASIDE = """
SELECT stream, kind, name FROM headrace.streams AS streams WHERE namespace = $1 AND established
    AND NOT EXISTS (SELECT FROM headrace.groups AS groups WHERE groups.stream = streams.stream AND removed)
ORDER BY kind = 'group', stream
"""

COUNT_PLACES = "SELECT place, count(*) FROM headrace.messages WHERE stream = $1 GROUP BY place"

COUNT_EVENTS = "SELECT count(*) FROM headrace.events WHERE stream = $1"

LIST_NUMBERS = "SELECT stream FROM headrace.streams WHERE namespace = $1"

# Some of the rows of a stream: a large transaction takes longer than a step may.
FORGET_MESSAGES = """
DELETE FROM headrace.messages WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM headrace.messages WHERE stream = $1 LIMIT $2))
"""

FORGET_EVENTS = """
DELETE FROM headrace.events WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM headrace.events WHERE stream = $1 LIMIT $2))
"""

FORGET_HISTORY = """
DELETE FROM headrace.history WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM headrace.history WHERE stream = $1 LIMIT $2))
"""

FORGET_SOME = (FORGET_MESSAGES, FORGET_EVENTS, FORGET_HISTORY)

# What is left of a stream without messages, events and history.
FORGET_STREAM = (
    "DELETE FROM headrace.producers WHERE stream = $1",
    "DELETE FROM headrace.unique_keys WHERE stream = $1",
    "DELETE FROM headrace.deferred_keys WHERE stream = $1",
    "DELETE FROM headrace.schedules WHERE stream = $1",
    "DELETE FROM headrace.progress WHERE stream = $1",
    "DELETE FROM headrace.groups WHERE stream = $1",
    "DELETE FROM headrace.topics WHERE stream = $1",
    "DELETE FROM headrace.counts WHERE stream = $1",
    "DELETE FROM headrace.outgoing WHERE stream = $1",
    "DELETE FROM headrace.outboxes WHERE stream = $1",
    *limit_statements.FORGET_LINES,
    "DELETE FROM headrace.streams WHERE stream = $1",
)

# --- export ----------------------------------------------------------------------------------------------

READ_STREAM = """
SELECT stream, lease_us, sealed = 2 FROM headrace.streams WHERE namespace = $1 AND kind = $2 AND name = $3
"""

READ_TOPIC = """
SELECT first, last, last_us, retention_us, max_length, strict FROM headrace.topics WHERE stream = $1
"""

READ_GROUP = """
SELECT position, seen_us, ordered, wanted_us, unwanted_us, again FROM headrace.groups WHERE stream = $1
"""

LIST_DEFERRED = "SELECT key, number, passed, drawable FROM headrace.deferred_keys WHERE stream = $1"

LIST_SCHEDULES = """
SELECT name, last_us, fired_us, paused, definition, timing FROM headrace.schedules WHERE stream = $1
"""

# stream, after this number, how many, bytes
READ_EVENTS = """
SELECT number, id, task, body, at_us, expires_us, key FROM (
    SELECT *, sum(octet_length(body)) OVER (ORDER BY number) AS reached,
        row_number() OVER (ORDER BY number) AS nth
    FROM (SELECT * FROM headrace.events WHERE stream = $1 AND number > $2 ORDER BY number LIMIT $3) AS page
) AS found WHERE reached <= $4 OR nth = 1 ORDER BY number
"""

# stream; after this place, time and number; how many, bytes; the stream of the topic
READ_MESSAGES = """
SELECT seq, place, at_us, since_us, priority, expires_us, id, task, unique_key, unique_until, state, body,
    child, worker IS NOT NULL, reason, failure, note, result,
    EXISTS (SELECT FROM headrace.unique_keys AS keys WHERE keys.stream = found.stream
        AND keys.key = found.unique_key AND keys.id = found.id AND keys.expires_us IS NULL),
    lane,
    (SELECT max(number) FROM headrace.events AS events WHERE events.stream = $7 AND events.id = found.id),
    (SELECT max(at_us) FROM headrace.events AS events WHERE events.stream = $7 AND events.id = found.id),
    coalesce(staged, (SELECT content FROM headrace.constraints AS limited
        WHERE limited.constraints = found.constraints)),
    order_key,
    EXISTS (SELECT FROM headrace.unique_keys AS keys WHERE keys.stream = found.stream
        AND keys.key = found.order_key AND keys.id = found.id)
FROM (
    SELECT *, sum(coalesce(octet_length(body), 0) + coalesce(octet_length(result), 0))
            OVER (ORDER BY place, at_us, seq) AS reached,
        row_number() OVER (ORDER BY place, at_us, seq) AS nth
    FROM (
        SELECT * FROM headrace.messages
        WHERE stream = $1 AND (place, at_us, seq) > ($2::smallint, $3::bigint, $4::bigint)
        ORDER BY place, at_us, seq LIMIT $5) AS page
) AS found WHERE reached <= $6 OR nth = 1 ORDER BY place, at_us, seq
"""

FIND_TOPIC_OF = "SELECT topic FROM headrace.groups WHERE stream = $1"

# stream, after this key, how many, now
READ_KEYS = """
SELECT key, id, expires_us FROM headrace.unique_keys
WHERE stream = $1 AND key > $2 AND expires_us > $4 ORDER BY key LIMIT $3
"""

# --- import ----------------------------------------------------------------------------------------------

READ_IMPORT = """
SELECT place, count FROM headrace.imports WHERE namespace = $1 AND kind = $2 AND name = $3 AND move = $4
"""

# Only one step at a time imports a stream.
LOCK_IMPORT = "SELECT pg_advisory_xact_lock(hashtextextended('headrace import ' || $1 || $2 || $3, 0))"

WRITE_IMPORT = """
INSERT INTO headrace.imports (namespace, kind, name, move, place, count) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (namespace, kind, name, move) DO UPDATE SET place = excluded.place, count = excluded.count
"""

WRITE_SETTINGS = """
UPDATE headrace.streams SET lease_us = coalesce(lease_us, $2), paused = paused OR $3 WHERE stream = $1
"""

WRITE_TOPIC = """
UPDATE headrace.topics
SET first = $2, last = $3, last_us = $4, retention_us = $5, max_length = $6, strict = $7 WHERE stream = $1
"""

WRITE_GROUP = """
INSERT INTO headrace.groups (stream, topic, position, seen_us, ordered, wanted_us, unwanted_us, again, keyed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, true)
ON CONFLICT (stream) DO UPDATE SET position = excluded.position, seen_us = excluded.seen_us,
    ordered = excluded.ordered, wanted_us = excluded.wanted_us, unwanted_us = excluded.unwanted_us,
    again = excluded.again, keyed = true, removed = false
"""

WRITE_DEFERRED = """
INSERT INTO headrace.deferred_keys (stream, key, number, passed, drawable) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (stream, key) DO UPDATE
    SET number = excluded.number, passed = excluded.passed, drawable = excluded.drawable
"""

# stream; numbers, ids, tasks, bodies, times, expiries, keys
ADD_EVENTS = """
INSERT INTO headrace.events (stream, number, id, task, body, at_us, expires_us, key)
SELECT $1, * FROM unnest(
    $2::bigint[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[], $8::text[])
"""

ADD_SCHEDULE = """
INSERT INTO headrace.schedules (stream, name, last_us, fired_us, paused, definition, timing)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING
"""

# stream; the columns → the ids that were added
ADD_MESSAGES = """
INSERT INTO headrace.messages
    (stream, id, task, place, at_us, since_us, lane, priority, expires_us, unique_key, unique_until, reason,
     note, state, failure, result, child, begun, worker, body, constraints, order_key)
SELECT $1, id, task, place, at_us, since_us, lane, priority, expires_us, unique_key, unique_until, reason,
    note, state, failure, result, child, begun, worker, body, constraints, order_key
FROM unnest($2::text[], $3::text[], $4::smallint[], $5::bigint[], $6::bigint[], $7::smallint[],
    $8::smallint[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bytea[],
    $15::bytea[], $16::bytea[], $17::boolean[], $18::boolean[], $19::text[], $20::bytea[], $21::bigint[],
    $22::text[]) WITH ORDINALITY
    AS added (id, task, place, at_us, since_us, lane, priority, expires_us, unique_key, unique_until, reason,
        note, state, failure, result, child, begun, worker, body, constraints, order_key, position)
ORDER BY position
ON CONFLICT DO NOTHING
RETURNING id
"""

# stream, now, keys
FORGET_KEYS_THAT_ENDED = """
DELETE FROM headrace.unique_keys
WHERE stream = $1 AND key = ANY ($3::text[]) AND (expires_us <= $2 OR id = '')
"""

# stream; keys, ids, times → the keys that were added
ADD_KEYS = """
INSERT INTO headrace.unique_keys (stream, key, id, expires_us)
SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[])
ON CONFLICT DO NOTHING
RETURNING key
"""
