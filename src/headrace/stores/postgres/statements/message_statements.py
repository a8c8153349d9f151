"""The statements about messages, by subject. Rows travel as one array for each column."""

from __future__ import annotations

#: Whether a message that waits has expired by the time in the parameter.
EXPIRED = (
    "(message.place < 10 AND message.place <> 7 AND message.expires_us BETWEEN 1 AND {now}"
    " AND NOT message.begun)"
)

# --- appending -------------------------------------------------------------------------------------------

# namespace, name, producer, number, time to live, offset, durability, whether all ids are new, whether there
# is child work; ids, tasks, bodies, priorities, child work; delays, due times, lifetimes or NULL; the
# channel, and what to announce when a message is due before all others
APPEND_PLAIN = """
SELECT answers, refused, ready FROM headrace.append_plain(
    $1, $2, $3, $4, $5, $6, $7, $8, $9,
    $10::text[], $11::text[], $12::bytea[], $13::smallint[], $14::boolean[],
    $15::bigint[], $16::bigint[], $17::bigint[], $18, $19)
"""

# stream, producer, number, now, time to live → whether the batch is new
TAKE_BATCH = "SELECT headrace.take_batch($1::integer, $2, $3, $4, $5)"

READ_ANSWERS = "SELECT answers, refused FROM headrace.producers WHERE stream = $1 AND producer = $2"

WRITE_ANSWERS = "UPDATE headrace.producers SET answers = $3 WHERE stream = $1 AND producer = $2"

NOTE_CHILDREN = "UPDATE headrace.streams SET held_children = true WHERE stream = $1 AND NOT held_children"

# stream, ids, now
FORGET_PAST_END_RECORDS = """
DELETE FROM headrace.messages
WHERE stream + 0 = $1 AND id = ANY ($2::text[]) AND place + 0 >= 11 AND at_us <= $3
"""

# stream, ids
FIND_IDS = "SELECT id FROM headrace.messages WHERE stream + 0 = $1 AND id = ANY ($2::text[])"

# stream, ids, now: also end records whose time has not passed
FIND_KNOWN_IDS = """
SELECT id FROM headrace.messages
WHERE stream + 0 = $1 AND id = ANY ($2::text[]) AND (place < 11 OR at_us > $3)
"""

# stream, now; ids, tasks, places, times, lanes, priorities, expiries, keys, kinds of key, bodies, child work,
# constraints, order keys → the ids that were added
ADD = """
INSERT INTO headrace.messages
    (stream, id, task, place, at_us, lane, priority, expires_us, unique_key, unique_until, body, child,
    constraints, order_key, since_us)
SELECT $1, id, task, place, at_us, lane, priority, expires_us, unique_key, unique_until, body, child,
    constraints, order_key, $2
FROM unnest($3::text[], $4::text[], $5::smallint[], $6::bigint[], $7::smallint[], $8::smallint[],
    $9::bigint[], $10::text[], $11::text[], $12::bytea[], $13::boolean[], $14::bigint[], $15::text[])
    WITH ORDINALITY
    AS added (id, task, place, at_us, lane, priority, expires_us, unique_key, unique_until, body, child,
        constraints, order_key, position)
ORDER BY position
ON CONFLICT DO NOTHING
RETURNING id
"""

# stream, ids
KEEP_AWAITED = "UPDATE headrace.messages SET awaited = true WHERE stream + 0 = $1 AND id = ANY ($2::text[])"

# Adds end records of cancelled messages: stream, now; ids, tasks, until when
NOTE_ABSORBED = """
INSERT INTO headrace.messages (stream, id, task, place, at_us, since_us, lane, priority)
SELECT $1, id, task, 12, until_us, $2, 5, 1
FROM unnest($3::text[], $4::text[], $5::bigint[]) AS absorbed (id, task, until_us)
ON CONFLICT DO NOTHING
"""

# --- unique keys -----------------------------------------------------------------------------------------

# Locks the row of each key, and makes those that are missing. stream, keys
LOCK_KEYS = """
INSERT INTO headrace.unique_keys (stream, key, id)
SELECT $1, key, '' FROM unnest($2::text[]) AS key ORDER BY key
ON CONFLICT (stream, key) DO UPDATE SET id = excluded.id WHERE false
"""

# stream, keys, now → key, owner's id, until when, whether the owner was appended with it, its place, its
# priority, whether it has expired, whether a caller waits for it, its number, constraints, child, order key.
# A step runs it after it has locked the keys. Both in one statement would find no owner that another step has
# added while this one waited for the lock.
FIND_KEYS = f"""
SELECT key, keys.id, keys.expires_us, message.unique_key = key, message.place, message.priority,
    {EXPIRED.format(now="$3")}, message.awaited, message.seq, message.constraints, message.child,
    message.order_key
FROM headrace.unique_keys AS keys LEFT JOIN headrace.messages AS message
    ON message.stream + 0 = keys.stream AND message.id = keys.id
WHERE keys.stream = $1 AND key = ANY ($2::text[])
"""  # nosec B608 # constants only

# stream, ids → id, place, awaited; without those that another transaction has locked
LOCK_OWNERS = """
SELECT id, place, awaited FROM headrace.messages
WHERE stream + 0 = $1 AND id = ANY ($2::text[]) ORDER BY id FOR UPDATE SKIP LOCKED
"""

# stream; keys, ids, expiries
TAKE_KEYS = """
INSERT INTO headrace.unique_keys (stream, key, id, expires_us)
SELECT $1, key, id, expires_us
FROM unnest($2::text[], $3::text[], $4::bigint[]) AS taken (key, id, expires_us)
ORDER BY key
ON CONFLICT (stream, key) DO UPDATE SET id = excluded.id, expires_us = excluded.expires_us
"""

# stream, keys: those that a step has locked and not taken
FORGET_FREE_KEYS = "DELETE FROM headrace.unique_keys WHERE stream = $1 AND key = ANY ($2::text[]) AND id = ''"

# streams, keys, ids: only keys that the message still holds until it finishes or starts
RELEASE_KEYS = """
DELETE FROM headrace.unique_keys AS keys
USING unnest($1::integer[], $2::text[], $3::text[]) AS held (stream, key, id)
WHERE keys.stream = held.stream AND keys.key = held.key AND keys.id = held.id AND expires_us IS NULL
"""

# streams, keys, ids: keys of any kind that the message holds
GIVE_UP_KEYS = """
DELETE FROM headrace.unique_keys AS keys
USING unnest($1::integer[], $2::text[], $3::text[]) AS held (stream, key, id)
WHERE keys.stream = held.stream AND keys.key = held.key AND keys.id = held.id
"""

# stream, key
FREE_KEY = "DELETE FROM headrace.unique_keys WHERE stream = $1 AND key = $2"

# --- claiming --------------------------------------------------------------------------------------------

# namespace, kinds, names, consumer, limit, suspects, children, lanes, whether child work is first, token,
# offset, bytes, whether to look for open lines
CLAIM = """
SELECT * FROM headrace.claim(
    $1, $2::text[], $3::text[], $4, $5::integer, $6::integer, $7::integer, $8::smallint[], $9, $10, $11, $12,
    $13)
ORDER BY rank
"""

# --- settling --------------------------------------------------------------------------------------------

# streams, ids, seqs, tids, times to live, results, notes, states, whether the state stays; whether there are
# groups, results to keep, messages that leave nothing; offset, durability
SETTLE_DONE = """
SELECT keyed, settled, waited_for FROM headrace.settle_done(
    $1::integer[], $2::text[], $3::bigint[], $4, $5::bigint[], $6::bytea[], $7::text[], $8::bytea[],
    $9::boolean[], $10, $11, $12, $13, $14)
"""

# namespace; streams, ids, seqs, tids, claims, times to live (NULL: nothing is kept), results, notes, states,
# whether the state stays; names and keys of limits, how many of the messages have each; offset, durability
SETTLE_LINED = """
SELECT blocked, settled, waited_for FROM headrace.settle_lined(
    $1, $2::integer[], $3::text[], $4::bigint[], $5, $6::bigint[], $7::bigint[], $8::bytea[], $9::text[],
    $10::bytea[], $11::boolean[], $12::text[], $13::text[], $14::bigint[], $15, $16)
"""

# streams, ids, seqs → stream, id, seq, place, claim, priority, cancel_us, unique_key, awaited, constraints,
# child, order_key
LOCK_HELD = """
SELECT message.stream, message.id, message.seq, place, claim, priority, cancel_us, unique_key, awaited,
    constraints, child, order_key
FROM unnest($1::integer[], $2::text[], $3::bigint[]) AS held (stream, id, seq)
    JOIN headrace.messages AS message
        ON message.stream + 0 = held.stream AND message.id = held.id AND message.seq = held.seq
ORDER BY held.stream, held.id
FOR UPDATE OF message
"""

# streams, ids
FORGET = """
DELETE FROM headrace.messages AS message USING unnest($1::integer[], $2::text[]) AS gone (stream, id)
WHERE message.stream + 0 = gone.stream AND message.id = gone.id
"""

# streams, ids, constraints
RELABEL = """
UPDATE headrace.messages AS message SET constraints = change.constraints
FROM unnest($1::integer[], $2::text[], $3::bigint[]) AS change (stream, id, constraints)
WHERE message.stream + 0 = change.stream AND message.id = change.id
"""

# streams, ids, places, times, lanes, states, whether a handler has begun; child work and messages with
# constraints go to their own lanes
MOVE = """
UPDATE headrace.messages AS message SET
    place = change.place - CASE WHEN change.place BETWEEN 2 AND 6 THEN
        CASE WHEN child THEN 8 ELSE 0 END + CASE WHEN constraints IS NULL THEN 0 ELSE 32 END ELSE 0 END,
    at_us = change.at_us, lane = change.lane, state = change.state, begun = change.begun
FROM unnest($1::integer[], $2::text[], $3::smallint[], $4::bigint[], $5::smallint[], $6::bytea[],
    $7::boolean[]) AS change (stream, id, place, at_us, lane, state, begun)
WHERE message.stream + 0 = change.stream AND message.id = change.id
"""

# streams, ids, places, kept until, notes, results, states, whether the state stays as it is; now
WRITE_END_RECORDS = """
UPDATE headrace.messages AS message SET
    place = change.place, at_us = change.at_us, since_us = $9, note = change.note, result = change.result,
    state = CASE WHEN same THEN message.state ELSE change.state END, body = NULL, awaited = false,
    constraints = NULL, order_key = NULL, staged = NULL
FROM unnest($1::integer[], $2::text[], $3::smallint[], $4::bigint[], $5::text[], $6::bytea[], $7::bytea[],
    $8::boolean[]) AS change (stream, id, place, at_us, note, result, state, same)
WHERE message.stream + 0 = change.stream AND message.id = change.id
"""

# streams, ids, reasons, states, failures; now
BURY = """
UPDATE headrace.messages AS message SET
    place = 10, at_us = $6, since_us = $6, reason = change.reason, state = change.state,
    failure = change.failure, awaited = false
FROM unnest($1::integer[], $2::text[], $3::text[], $4::bytea[], $5::bytea[])
    AS change (stream, id, reason, state, failure)
WHERE message.stream + 0 = change.stream AND message.id = change.id
"""

# --- leases ----------------------------------------------------------------------------------------------

# streams, ids, claims, now → stream, id, claim, whether its cancellation was requested
RENEW = """
UPDATE headrace.messages AS message SET at_us = $4
FROM unnest($1::integer[], $2::text[], $3::bigint[]) AS held (stream, id, claim)
WHERE message.stream + 0 = held.stream AND message.id = held.id AND message.claim = held.claim
    AND place + 0 = 7
RETURNING message.stream, message.id, message.claim, cancel_us IS NOT NULL
"""

# streams, now, longer than any lease, the lease where none is stored; as `Lease.restarted`
RESTART_LEASES = """
UPDATE headrace.streams SET longer_lease_us = $3, longer_until_us = $2 + coalesce(lease_us, $4)
WHERE stream = ANY ($1::integer[])
"""

# streams, ids, claims, fractions, words, logs; now
REPORT = """
INSERT INTO headrace.progress (stream, id, claim, fraction, words, log, at_us)
SELECT message.stream, message.id, message.claim, fraction, words, log, $7
FROM unnest($1::integer[], $2::text[], $3::bigint[], $4::float8[], $5::bytea[], $6::bytea[])
    AS report (stream, id, claim, fraction, words, log)
    JOIN headrace.messages AS message ON message.stream + 0 = report.stream AND message.id = report.id
WHERE message.claim = report.claim AND place + 0 = 7
ORDER BY report.stream, report.id
ON CONFLICT (stream, id) DO UPDATE SET claim = excluded.claim, fraction = excluded.fraction,
    words = excluded.words, log = excluded.log, at_us = excluded.at_us
"""

# namespace, kinds, names, offset → number and lease of each stream, as in RESOLVE; the time; and whether the
# stream may have something for `reclaim`: a lease that ran out, or one from the future; the start of the
# server; whether the stream held lines
FIND_OVERDUE = """
SELECT position, streams.stream, lease_us, longer_lease_us, longer_until_us, now.us, (
    SELECT at_us FROM headrace.messages WHERE stream = streams.stream AND place = 7 ORDER BY at_us LIMIT 1), (
    SELECT at_us FROM headrace.messages WHERE stream = streams.stream AND place = 7
    ORDER BY at_us DESC LIMIT 1),
    (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, held_lines
FROM (SELECT headrace.now_us($4) AS us) AS now, unnest($2::text[], $3::text[]) WITH ORDINALITY
    AS wanted (kind, name, position)
    JOIN headrace.streams AS streams
        ON namespace = $1 AND streams.kind = wanted.kind AND streams.name = wanted.name
ORDER BY position
"""

# streams, now
SHORTEN_LEASES = """
WITH late AS MATERIALIZED (
    SELECT stream, id FROM headrace.messages
    WHERE stream = ANY ($1::integer[]) AND place = 7 AND at_us > $2 FOR UPDATE SKIP LOCKED)
UPDATE headrace.messages AS message SET at_us = $2 FROM late
WHERE message.stream + 0 = late.stream AND message.id = late.id
"""

# streams, for each the time of the youngest lease that has run out; limit
LOCK_OVERDUE = """
SELECT message.stream, message.id, task, priority, cancel_us, unique_key, worker, state, awaited, constraints,
    child, order_key,
    (SELECT log FROM headrace.progress AS progress WHERE progress.stream = message.stream
        AND progress.id = message.id AND progress.claim = message.claim)
FROM unnest($1::integer[], $2::bigint[]) AS wanted (stream, until_us), LATERAL (
    SELECT * FROM headrace.messages AS overdue
    WHERE overdue.stream = wanted.stream AND place = 7 AND at_us <= wanted.until_us
    ORDER BY at_us, seq LIMIT $3 FOR UPDATE SKIP LOCKED) AS message
LIMIT $3
"""

# streams, ids, now: back to the lane of returned messages, with a state that cannot be read
RETURN_UNREAD = """
UPDATE headrace.messages AS message SET
    place = 3 - CASE WHEN child THEN 8 ELSE 0 END - CASE WHEN constraints IS NULL THEN 0 ELSE 32 END,
    lane = 3, at_us = $3
FROM unnest($1::integer[], $2::text[]) AS unread (stream, id)
WHERE message.stream + 0 = unread.stream AND message.id = unread.id
"""

# --- due times -------------------------------------------------------------------------------------------

# namespace, kinds, names, offset → index from 1, number, the time, the next due time, whether it held lines
FIND_DUE_STREAMS = """
SELECT position, streams.stream, now.us, least((
    SELECT at_us FROM headrace.messages WHERE stream = streams.stream AND place = 8 ORDER BY at_us LIMIT 1), (
    SELECT at_us FROM headrace.messages WHERE stream = streams.stream AND place = 9 ORDER BY at_us LIMIT 1)),
    held_lines
FROM (SELECT headrace.now_us($4) AS us) AS now, unnest($2::text[], $3::text[]) WITH ORDINALITY
    AS wanted (kind, name, position)
    JOIN headrace.streams AS streams
        ON namespace = $1 AND streams.kind = wanted.kind AND streams.name = wanted.name
ORDER BY position
"""

# streams, now, limit → stream, id, place, whether it will wait in a line; the earliest first
LOCK_DUE = """
SELECT due.stream, due.id, due.place, due.limited FROM (
    SELECT message.* FROM unnest($1::integer[]) AS wanted, unnest('{8,9}'::smallint[]) AS waiting, LATERAL (
        SELECT stream, id, place, at_us, seq, constraints IS NOT NULL OR staged IS NOT NULL AS limited
        FROM headrace.messages
        WHERE stream = wanted AND place = waiting AND at_us <= $2
        ORDER BY at_us, seq LIMIT $3 FOR UPDATE SKIP LOCKED) AS message) AS due
ORDER BY due.at_us, due.seq LIMIT $3
"""

# streams, ids, now; times one microsecond apart, so that messages are ready in the order of their due times
PROMOTE = """
UPDATE headrace.messages AS message SET
    place = lane - CASE WHEN child THEN 8 ELSE 0 END - CASE WHEN constraints IS NULL THEN 0 ELSE 32 END,
    at_us = $3 + position - 1
FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY AS due (stream, id, position)
WHERE message.stream + 0 = due.stream AND message.id = due.id
"""

# --- steering --------------------------------------------------------------------------------------------

_SUBJECT = f"""
SELECT id, place, priority,
    CASE WHEN unique_until IN ('spent', 'elapsed') THEN NULL ELSE unique_key END, awaited,
    {EXPIRED.format(now="$3")}, constraints, child, order_key
FROM headrace.messages AS message
"""  # nosec B608 # constants only

# stream, ids, now → id, place, priority, the key that it still owns, awaited, expired, constraints, child,
# order_key
LOCK_BY_ID = f"{_SUBJECT} WHERE stream + 0 = $1 AND id = ANY ($2::text[]) ORDER BY id FOR UPDATE"

# stream, limit, now → the columns of LOCK_BY_ID, for queued, scheduled and retrying messages
LOCK_WAITING = f"""
SELECT id, place, priority, unique_key, awaited, {EXPIRED.format(now="$3")}, constraints, child, order_key
FROM unnest('{{-38,-37,-36,-35,-34,-30,-29,-28,-27,-26,-6,-5,-4,-3,-2,1,2,3,4,5,6,8,9}}'::smallint[])
    AS wanted, LATERAL (
    SELECT * FROM headrace.messages
    WHERE stream = $1 AND place = wanted ORDER BY at_us, seq LIMIT $2 FOR UPDATE SKIP LOCKED) AS message
LIMIT $2
"""  # nosec B608 # constants only

# Counts, up to a limit, the end records of cancelled messages that stay longer than a given time
COUNT_CANCELLED = """
SELECT count(*) FROM (
    SELECT FROM headrace.messages WHERE stream = $1 AND place = 12 AND at_us > $2 LIMIT $3) AS kept
"""

# stream, id, time to live of the end record
ASK_TO_CANCEL = "UPDATE headrace.messages SET cancel_us = $3 WHERE stream + 0 = $1 AND id = $2"

# stream, id, now
QUEUE_NOW = """
UPDATE headrace.messages SET
    place = lane - CASE WHEN child THEN 8 ELSE 0 END - CASE WHEN constraints IS NULL THEN 0 ELSE 32 END,
    at_us = $3
WHERE stream + 0 = $1 AND id = $2
"""

# stream, id, body
REWRITE = "UPDATE headrace.messages SET body = $3 WHERE stream + 0 = $1 AND id = $2"

# stream, ids, now; times one microsecond apart, so that messages are ready in the order of the list
REPLAY = """
UPDATE headrace.messages AS message SET
    place = 4 + least(greatest(priority, 0), 2) - CASE WHEN child THEN 8 ELSE 0 END
        - CASE WHEN constraints IS NULL THEN 0 ELSE 32 END,
    lane = 4 + least(greatest(priority, 0), 2),
    at_us = $3 + position - 1, expires_us = 0, begun = false,
    state = NULL, reason = NULL, failure = NULL, cancel_us = NULL
FROM unnest($2::text[]) WITH ORDINALITY AS dead (id, position)
WHERE message.stream + 0 = $1 AND message.id = dead.id
"""

# A caller waits for the end of the message. namespace, kind, name, id → whether it is queued. A crash of the
# server may undo this: the caller looks again after a while. Many callers may wait for a message that a
# transaction of a user replaces: they wait without a connection, and run this again.
AWAIT = """
UPDATE headrace.messages SET awaited = true
FROM headrace.set_durability('off'), set_config('lock_timeout', '100', true)
WHERE stream + 0 = (SELECT stream FROM headrace.streams WHERE namespace = $1 AND kind = $2 AND name = $3)
    AND id = $4 AND place + 0 < 10 AND NOT awaited
RETURNING place < 7
"""
