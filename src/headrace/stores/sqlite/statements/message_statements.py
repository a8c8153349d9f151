"""The statements about messages, by subject. Rows travel as JSON arrays (see bulk_binding.py).

`json_each` is on the left of a CROSS JOIN wherever the order matters. SQLite keeps this order, and reads each
range of the index in its sorted order. So no statement sorts, and LIMIT ends it early. `substr` of an empty
blob is NULL, hence `coalesce(..., x'')`.
"""

from __future__ import annotations

# --- appending -------------------------------------------------------------------------------------------

# [id, ...] → [[seq, id, place, at_us], ...]
FIND_IDS = """
SELECT json_group_array(json_array(seq, id, place, at_us)) FROM headrace_messages
WHERE stream = ?1 AND id IN (SELECT value FROM json_each(?2))
"""

# [[id, task, place, at_us, lane, priority, expires_us, unique_key, unique_until, start and length of the
# body, child, constraints, order_key], ...]
ADD_MESSAGES = """
INSERT INTO headrace_messages
    (stream, id, task, place, at_us, lane, priority, expires_us, unique_key, unique_until, body, child,
     constraints, order_key, since_us, claim, worker)
SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, value ->> 8, coalesce(substr(?3, value ->> 9, value ->> 10), x''), value ->> 11,
    value ->> 12, value ->> 13, ?4, ?5, 1 << 40
FROM json_each(?2) WHERE true ON CONFLICT DO NOTHING
"""

# Adds many messages that differ only in id and body, in a third of the time of ADD_MESSAGES: ids in one blob,
# then task, lane, time, priority, bodies, number; [start and length of the body in one number, ...], child
ADD_ALIKE = """
INSERT INTO headrace_messages
    (stream, id, task, place, at_us, lane, priority, expires_us, body, since_us, claim, worker, child)
SELECT ?1, CAST(substr(?2, 1 + 26 * key, 26) AS TEXT), ?3, ?4 - 8 * ?10, ?5, ?4, ?6, 0,
    coalesce(substr(?7, value >> 32, value & 0xffffffff), x''), ?5, ?8, 1 << 40, ?10
FROM json_each(?9) WHERE true ON CONFLICT DO NOTHING
"""

# Adds one message: stream, id, task, place, time, lane, priority, body, number, child
ADD_MESSAGE = """
INSERT INTO headrace_messages
    (stream, id, task, place, at_us, lane, priority, expires_us, body, since_us, claim, worker, child)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?5, ?9, 1 << 40, ?10) ON CONFLICT DO NOTHING
"""

# What ADD_MESSAGE needs to know before: the stream, and the number of the producer's last batch.
FIND_STREAM_FOR_ONE = """
SELECT stream, established, sealed, held_children, (
    SELECT number FROM headrace_producers WHERE stream = streams.stream AND producer = ?4)
FROM headrace_streams AS streams WHERE namespace = ?1 AND kind = ?2 AND name = ?3
"""

# Adds end records of cancelled messages: [[id, task, until], ...], now
NOTE_ABSORBED = """
INSERT INTO headrace_messages
    (stream, id, task, place, at_us, lane, priority, expires_us, since_us, claim, worker)
SELECT ?1, value ->> 0, value ->> 1, 12, value ->> 2, 5, 1, 0, ?3, 0, 1 << 40
FROM json_each(?2) WHERE true ON CONFLICT DO NOTHING
"""

# Undoes ADD_MESSAGES. Its rows have its number in the column that later holds the number of a claim.
TAKE_BACK = """
DELETE FROM headrace_messages
WHERE stream = ?1 AND id IN (SELECT value FROM json_each(?2)) AND claim = ?3
"""

READ_PRODUCER = """
SELECT number, at_us, answers FROM headrace_producers WHERE stream = ? AND producer = ?
"""

WRITE_PRODUCER = """
INSERT INTO headrace_producers (stream, producer, number, at_us, answers) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET number = excluded.number, at_us = excluded.at_us, answers = excluded.answers
"""

# --- unique keys -----------------------------------------------------------------------------------------

# The columns that tell whether a waiting message has expired: see rows/expiry.py
_EXPIRY = "message.expires_us, iif(message.expires_us BETWEEN 1 AND ?3, hex(state), NULL)"

# [key, ...], now → [[key, id, until, whether the owner was appended with it, its seq, place, priority, when
# it expires], ...]
FIND_KEYS = f"""
SELECT json_group_array(json_array(
    key, keys.id, keys.expires_us, unique_key = key, seq, place, priority, {_EXPIRY}, constraints, child,
    order_key))
FROM headrace_unique_keys AS keys LEFT JOIN headrace_messages AS message
    ON message.stream = ?1 AND message.id = keys.id
WHERE keys.stream = ?1 AND key IN (SELECT value FROM json_each(?2))
    AND (keys.expires_us IS NULL OR keys.expires_us > ?3)
"""  # nosec B608 # constants only

# [[key, id, expires_us], ...]
TAKE_KEYS = """
INSERT OR REPLACE INTO headrace_unique_keys (stream, key, id, expires_us)
SELECT ?1, value ->> 0, value ->> 1, value ->> 2 FROM json_each(?2)
"""

# [[stream, key, id], ...]; keys that have a window only if ?2
RELEASE_KEYS = """
DELETE FROM headrace_unique_keys WHERE (expires_us IS NULL OR ?2) AND (stream, key, id) IN (
    SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1))
"""

FREE_KEY = "DELETE FROM headrace_unique_keys WHERE stream = ? AND key = ?"

# --- claiming --------------------------------------------------------------------------------------------

# [[kind, name], ...], the first lane, whether child work is wanted too
IS_SOMETHING_READY = """
SELECT EXISTS (
    SELECT 1 FROM json_each(?2) AS wanted CROSS JOIN headrace_streams AS streams CROSS JOIN headrace_messages
    WHERE namespace = ?1 AND streams.kind = wanted.value ->> 0 AND streams.name = wanted.value ->> 1
        AND NOT paused AND headrace_messages.stream = streams.stream AND place BETWEEN ?3 AND 6
) OR ?4 AND EXISTS (
    SELECT 1 FROM json_each(?2) AS wanted CROSS JOIN headrace_streams AS streams CROSS JOIN headrace_messages
    WHERE namespace = ?1 AND streams.kind = wanted.value ->> 0 AND streams.name = wanted.value ->> 1
        AND NOT paused AND held_children
        AND headrace_messages.stream = streams.stream AND place BETWEEN ?3 - 8 AND 6 - 8
) OR ?5 AND EXISTS (
    SELECT 1 FROM json_each(?2) AS wanted CROSS JOIN headrace_streams AS streams
        CROSS JOIN headrace_lines AS line
    WHERE namespace = ?1 AND streams.kind = wanted.value ->> 0 AND streams.name = wanted.value ->> 1
        AND NOT paused AND held_lines AND line.stream = streams.stream AND blocked_by IS NULL
        AND (place BETWEEN ?3 - 32 AND 6 - 32 OR ?4 AND place BETWEEN ?3 - 40 AND 6 - 40))
"""

# streams and lanes in the wanted order, how many suspects, how many others, the lane of suspects
# → [[seq, length of its body, place], ...]
FIND_READY = """
SELECT json_group_array(json_array(seq, size, place)) FROM (
    SELECT * FROM (
        SELECT seq, length(body) AS size, place FROM json_each(?1) AS wanted CROSS JOIN headrace_messages
        WHERE stream = wanted.value AND place = ?5 LIMIT ?3)
    UNION ALL
    SELECT * FROM (
        SELECT seq, length(body) AS size, place
        FROM json_each(?2) AS lane CROSS JOIN json_each(?1) AS wanted CROSS JOIN headrace_messages
        WHERE stream = wanted.value AND place = lane.value LIMIT ?4))
"""

# [seq, ...]
LEASE = """
UPDATE headrace_messages SET place = 7, at_us = ?2, since_us = ?2, claim = ?3, worker = ?4
WHERE seq IN (SELECT value FROM json_each(?1))
"""

# [seq, ...] → [[seq, stream, id, priority, expires_us, unique_key, unique_until, child, length of state, of
# body], ...], the states, the bodies
READ_LEASED = """
SELECT
    json_group_array(json_array(
        seq, stream, id, priority, expires_us, unique_key, unique_until, child, length(state), length(body))),
    CAST(group_concat(state, '') AS BLOB),
    CAST(group_concat(body, '') AS BLOB)
FROM headrace_messages WHERE seq IN (SELECT value FROM json_each(?))
"""

READ_ID = "SELECT CAST(id AS BLOB) FROM headrace_messages WHERE seq = ?"

WRITE_ID = "UPDATE headrace_messages SET id = ? WHERE seq = ?"

# [seq, ...]
SPEND_STARTED_KEYS = """
UPDATE headrace_messages SET unique_until = 'spent'
WHERE seq IN (SELECT value FROM json_each(?))
"""

FIND_WORKER = "SELECT worker FROM headrace_workers WHERE namespace = ? AND consumer = ?"

ADD_WORKER = """
INSERT INTO headrace_workers (namespace, consumer, seen_us) VALUES (?, ?, ?) RETURNING worker
"""

# --- settling --------------------------------------------------------------------------------------------

# [seq, ...] → [[seq, stream, place, claim, priority, cancel_us, unique_key, id], ...]
READ_HELD = """
SELECT json_group_array(json_array(
    seq, stream, place, claim, priority, cancel_us, unique_key, id, constraints, child, order_key))
FROM headrace_messages WHERE seq IN (SELECT value FROM json_each(?))
"""

# [seq, ...]
FORGET = "DELETE FROM headrace_messages WHERE seq IN (SELECT value FROM json_each(?))"

# [[seq, constraints], ...]
RELABEL = """
UPDATE headrace_messages SET constraints = change.value ->> 1
FROM json_each(?) AS change WHERE seq = change.value ->> 0
"""

# [[seq, place, at_us, lane, state's start and length], ...]; child work goes to its own lane
MOVE = """
UPDATE headrace_messages SET
    place = (change.value ->> 1) - iif((change.value ->> 1) < 7,
        iif(child, 8, 0) + iif(constraints IS NULL, 0, 32), 0),
    at_us = change.value ->> 2, lane = change.value ->> 3,
    state = iif(change.value ->> 4 IS NULL, NULL, substr(?2, change.value ->> 4, change.value ->> 5))
FROM json_each(?1) AS change WHERE seq = change.value ->> 0
"""

# [[seq, place, kept until, note, result's start and length, state's start and length or NULL: keep], ...]
END = """
UPDATE headrace_messages SET
    place = change.value ->> 1, at_us = change.value ->> 2, since_us = ?3, note = change.value ->> 3,
    result = iif(change.value ->> 4 IS NULL, NULL,
        coalesce(substr(?2, change.value ->> 4, change.value ->> 5), x'')),
    state = iif(change.value ->> 6 IS NULL, state, substr(?2, change.value ->> 6, change.value ->> 7)),
    body = NULL, constraints = NULL, order_key = NULL
FROM json_each(?1) AS change WHERE seq = change.value ->> 0
"""

# [[seq, reason, state's start and length, failure's start and length], ...]
BURY = """
UPDATE headrace_messages SET
    place = 10, at_us = ?3, since_us = ?3, reason = change.value ->> 1,
    state = iif(change.value ->> 2 IS NULL, NULL, substr(?2, change.value ->> 2, change.value ->> 3)),
    failure = substr(?2, change.value ->> 4, change.value ->> 5)
FROM json_each(?1) AS change WHERE seq = change.value ->> 0
"""

# [[seq, claim, fraction, text, log's start and length], ...], now
REPORT = """
INSERT OR REPLACE INTO headrace_progress (seq, claim, fraction, text, at_us, log)
SELECT message.seq, claim, report.value ->> 2, report.value ->> 3, ?2,
    iif(report.value ->> 4 IS NULL, NULL, substr(?3, report.value ->> 4, report.value ->> 5))
FROM json_each(?1) AS report CROSS JOIN headrace_messages AS message
WHERE message.seq = report.value ->> 0 AND claim = report.value ->> 1 AND place = 7
"""

# --- steering --------------------------------------------------------------------------------------------

# [id, ...], now → [[seq, stream, place, priority, unique_key if the message still owns it, id, when it
# expires], ...]
READ_BY_ID = f"""
SELECT json_group_array(json_array(seq, stream, place, priority,
    iif(unique_until IN ('spent', 'elapsed'), NULL, unique_key), id, {_EXPIRY}, constraints, child,
    order_key))
FROM headrace_messages AS message WHERE stream = ?1 AND id IN (SELECT value FROM json_each(?2))
"""  # nosec B608 # constants only

# → the columns of READ_BY_ID, for queued, scheduled and retrying messages
READ_WAITING = f"""
SELECT json_group_array(json_array(
    seq, stream, place, priority, unique_key, id, expires_us, state, constraints, child, order_key))
FROM (
    SELECT seq, stream, place, priority, unique_key, message.id, {_EXPIRY} AS state, constraints, child,
        order_key
    FROM json_each('[-38, -37, -36, -35, -34, -30, -29, -28, -27, -26,
        -6, -5, -4, -3, -2, 1, 2, 3, 4, 5, 6, 8, 9]') AS waiting
        CROSS JOIN headrace_messages AS message
    WHERE stream = ?1 AND place = waiting.value LIMIT ?2)
"""  # nosec B608 # constants only

# Counts, up to a limit, the end records of cancelled messages that stay longer than a given time
COUNT_CANCELLED = """
SELECT count(*) FROM (
    SELECT 1 FROM headrace_messages WHERE stream = ?1 AND place = 12 AND at_us > ?2 LIMIT ?3)
"""

ASK_TO_CANCEL = "UPDATE headrace_messages SET cancel_us = ? WHERE seq = ?"

REWRITE = "UPDATE headrace_messages SET body = ? WHERE seq = ?"

# [seq, ...]; times one microsecond apart, so that messages are ready in the order of the list
REPLAY = """
UPDATE headrace_messages SET
    place = 4 + min(max(priority, 0), 2) - iif(child, 8, 0) - iif(constraints IS NULL, 0, 32),
    lane = 4 + min(max(priority, 0), 2),
    at_us = ?2 + dead.key, expires_us = 0,
    state = NULL, reason = NULL, failure = NULL, cancel_us = NULL
FROM json_each(?1) AS dead WHERE seq = dead.value
"""
