"""The statements about moving: the seal of the store, pages of streams that were set aside, and their import.
The remarks in message_statements.py apply here too."""

from __future__ import annotations

from . import limit_statements

# --- the seal --------------------------------------------------------------------------------------------

READ_SEAL = "SELECT seal FROM headrace_seals WHERE namespace = ?"

WRITE_SEAL = "INSERT OR REPLACE INTO headrace_seals (namespace, seal) VALUES (?, ?)"

FORGET_SEAL = "DELETE FROM headrace_seals WHERE namespace = ?"

SEAL_STREAMS = """
UPDATE headrace_streams SET sealed = sealed + 2 + iif(paused, 4, 0), paused = 1
WHERE namespace = ? AND sealed < 2
"""

UNSEAL_STREAMS = """
UPDATE headrace_streams SET sealed = sealed & 1, paused = sealed >= 4 WHERE namespace = ? AND sealed >= 2
"""

SET_ASIDE = "UPDATE headrace_streams SET namespace = ?2 WHERE namespace = ?1"

# Topics before their groups. A stream of which only the parts are used has a layout, and is not established.
LIST_ASIDE = """
SELECT stream, kind, name FROM headrace_streams AS streams
WHERE namespace = ? AND (established OR layout IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM headrace_groups AS groups WHERE groups.stream = streams.stream AND removed)
ORDER BY kind = 'group', stream
"""

COUNT_PLACES = "SELECT place, count(*) FROM headrace_messages WHERE stream = ? GROUP BY place"

COUNT_EVENTS = """
SELECT count(*) FROM headrace_events WHERE event BETWEEN ?1 << 40 AND (?1 + 1 << 40) - 1
"""

LIST_NUMBERS = "SELECT stream FROM headrace_streams WHERE namespace = ?"

# Some of the rows of a stream: large transactions delay other processes.
FORGET_MESSAGES = """
DELETE FROM headrace_messages WHERE seq IN (
    SELECT seq FROM headrace_messages WHERE stream = ?1 LIMIT ?2)
"""

FORGET_EVENTS = """
DELETE FROM headrace_events WHERE event IN (
    SELECT event FROM headrace_events WHERE event BETWEEN ?1 << 40 AND (?1 + 1 << 40) - 1 LIMIT ?2)
"""

FORGET_HISTORY = """
DELETE FROM headrace_history WHERE rowid IN (
    SELECT rowid FROM headrace_history WHERE stream = ?1 LIMIT ?2)
"""

FORGET_SOME = (FORGET_MESSAGES, FORGET_EVENTS, FORGET_HISTORY)

# What is left of a stream without messages, events and history.
FORGET_STREAM = (
    "DELETE FROM headrace_producers WHERE stream = ?",
    "DELETE FROM headrace_unique_keys WHERE stream = ?",
    "DELETE FROM headrace_deferred_keys WHERE stream = ?",
    "DELETE FROM headrace_schedules WHERE stream = ?",
    "DELETE FROM headrace_groups WHERE stream = ?",
    "DELETE FROM headrace_topics WHERE stream = ?",
    "DELETE FROM headrace_outgoing WHERE stream = ?",
    "DELETE FROM headrace_outboxes WHERE stream = ?",
    *limit_statements.FORGET_LINES,
    "DELETE FROM headrace_history_sizes WHERE stream = ?",
    "DELETE FROM headrace_streams WHERE stream = ?",
)

# --- export ----------------------------------------------------------------------------------------------

READ_STREAM = """
SELECT stream, lease_us, sealed >= 4, layout FROM headrace_streams
WHERE namespace = ? AND kind = ? AND name = ?
"""

READ_TOPIC = """
SELECT first, last, last_us, retention_us, max_length, strict FROM headrace_topics WHERE stream = ?
"""

READ_GROUP = """
SELECT position, seen_us, ordered, wanted_us, unwanted_us, again FROM headrace_groups WHERE stream = ?
"""

LIST_DEFERRED = "SELECT key, number, passed, drawable FROM headrace_deferred_keys WHERE stream = ?"

LIST_SCHEDULES = """
SELECT name, last_us, fired_us, paused, definition, timing FROM headrace_schedules WHERE stream = ?
"""

# stream, after this event, how many, bytes
READ_EVENTS = """
WITH found AS (
    SELECT event, sum(length(body)) OVER (ORDER BY event) AS reached
    FROM (SELECT event, body FROM headrace_events
        WHERE event > ?2 AND event <= (?1 + 1 << 40) - 1 ORDER BY event LIMIT ?3))
SELECT events.event, at_us, expires_us, id, task, key, body
FROM found CROSS JOIN headrace_events AS events
WHERE events.event = found.event AND (reached <= ?4 OR found.event = (SELECT min(event) FROM found))
ORDER BY events.event
"""

# stream; after this place, time and number; how many, bytes
READ_MESSAGES = """
WITH found AS (
    SELECT seq, size, row_number() OVER (ORDER BY place, at_us, seq) AS position,
        sum(size) OVER (ORDER BY place, at_us, seq) AS reached
    FROM (SELECT seq, place, at_us, coalesce(length(body), 0) + coalesce(length(result), 0) AS size
        FROM headrace_messages
        WHERE stream = ?1 AND (place, at_us, seq) > (?2, ?3, ?4) ORDER BY place, at_us, seq LIMIT ?5))
SELECT message.seq, place, at_us, since_us, priority, expires_us, id, task, unique_key, unique_until,
    state, body, child, worker <> 1 << 40, reason, failure, note, result,
    EXISTS (SELECT 1 FROM headrace_unique_keys AS keys WHERE keys.stream = message.stream
        AND keys.key = message.unique_key AND keys.id = message.id AND keys.expires_us IS NULL),
    lane,
    (SELECT max(event) & ((1 << 40) - 1) FROM headrace_events AS events
        WHERE events.stream = ?7 AND events.id = message.id),
    (SELECT max(at_us) FROM headrace_events AS events
        WHERE events.stream = ?7 AND events.id = message.id),
    (SELECT content FROM headrace_constraints AS limited WHERE limited.constraints = message.constraints),
    order_key,
    EXISTS (SELECT 1 FROM headrace_unique_keys AS keys WHERE keys.stream = message.stream
        AND keys.key = message.order_key AND keys.id = message.id)
FROM found CROSS JOIN headrace_messages AS message
WHERE message.seq = found.seq AND (reached <= ?6 OR position = 1)
ORDER BY place, at_us, message.seq
"""

FIND_TOPIC_OF = "SELECT topic FROM headrace_groups WHERE stream = ?"

# stream, after this key, how many, now
READ_KEYS = """
SELECT key, id, expires_us FROM headrace_unique_keys
WHERE stream = ?1 AND key > ?2 AND expires_us > ?4 ORDER BY key LIMIT ?3
"""

# --- import ----------------------------------------------------------------------------------------------

READ_IMPORT = """
SELECT place, count FROM headrace_imports WHERE namespace = ? AND kind = ? AND name = ? AND move = ?
"""

WRITE_IMPORT = """
INSERT OR REPLACE INTO headrace_imports (namespace, kind, name, move, place, count) VALUES (?, ?, ?, ?, ?, ?)
"""

WRITE_SETTINGS = """
UPDATE headrace_streams SET lease_us = coalesce(lease_us, ?2), paused = paused OR ?3 WHERE stream = ?1
"""

READ_LAYOUT = "SELECT layout FROM headrace_streams WHERE stream = ?"

WRITE_LAYOUT = "UPDATE headrace_streams SET layout = ?2, sealed = ?3 WHERE stream = ?1"

WRITE_PAUSED = "UPDATE headrace_streams SET paused = ?2 WHERE stream = ?1"

WRITE_TOPIC = """
UPDATE headrace_topics SET
    first = ?2, last = ?3, last_us = ?4, retention_us = ?5, max_length = ?6, strict = ?7
WHERE stream = ?1
"""

WRITE_GROUP = """
INSERT OR REPLACE INTO headrace_groups
    (stream, topic, position, seen_us, ordered, wanted_us, unwanted_us, again) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

WRITE_DEFERRED = """
INSERT OR REPLACE INTO headrace_deferred_keys (stream, key, number, passed, drawable) VALUES (?, ?, ?, ?, ?)
"""

ADD_EVENT = """
INSERT INTO headrace_events (event, stream, at_us, expires_us, id, task, key, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

ADD_SCHEDULE = """
INSERT INTO headrace_schedules (stream, name, last_us, fired_us, paused, definition, timing)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

ADD_MESSAGE = """
INSERT INTO headrace_messages
    (stream, place, at_us, since_us, claim, worker, lane, priority, expires_us, id, task, unique_key,
     unique_until, reason, note, state, failure, result, child, body, constraints, order_key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

ADD_KEY = """
INSERT INTO headrace_unique_keys (stream, key, id, expires_us) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

FORGET_KEY_THAT_ENDED = "DELETE FROM headrace_unique_keys WHERE stream = ? AND key = ? AND expires_us <= ?"

FORGET_PAST = "DELETE FROM headrace_messages WHERE stream = ? AND id = ? AND place >= 11 AND at_us <= ?"
