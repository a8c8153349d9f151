"""The statements about leases, due times, pruning, workers and control messages."""

from __future__ import annotations

# --- leases ----------------------------------------------------------------------------------------------

# [seq, ...] → [[seq, claim, whether its cancellation was requested], ...]
READ_RUNNING = """
SELECT json_group_array(json_array(seq, claim, cancel_us IS NOT NULL)) FROM headrace_messages
WHERE seq IN (SELECT value FROM json_each(?)) AND place = 7
"""

# [seq, ...]
RENEW = "UPDATE headrace_messages SET at_us = ?2 WHERE seq IN (SELECT value FROM json_each(?1))"

# [seq, ...], now, longer than any lease, the lease where none is stored; as `Lease.restarted`
RESTART_LEASES = """
UPDATE headrace_streams SET longer_lease_us = ?3, longer_until_us = ?2 + coalesce(lease_us, ?4)
WHERE stream IN (
    SELECT stream FROM headrace_messages WHERE seq IN (SELECT value FROM json_each(?1)))
"""

# [[stream, leases from this time or before have expired], ...], now
IS_SOMETHING_OVERDUE = """
SELECT EXISTS (
    SELECT 1 FROM json_each(?1) AS wanted CROSS JOIN headrace_messages
    WHERE stream = wanted.value ->> 0 AND place = 7 AND at_us <= wanted.value ->> 1
) OR EXISTS (
    SELECT 1 FROM json_each(?1) AS wanted CROSS JOIN headrace_messages
    WHERE stream = wanted.value ->> 0 AND place = 7 AND at_us > ?2
)
"""

# [stream, ...]
SHORTEN_LEASES = """
UPDATE headrace_messages SET at_us = ?2
WHERE seq IN (
    SELECT seq FROM json_each(?1) AS wanted CROSS JOIN headrace_messages
    WHERE stream = wanted.value AND place = 7 AND at_us > ?2)
"""

# [[stream, leases from this time or before have expired], ...]
# → [[seq, stream, id, task, priority, cancel_us, unique_key, worker, constraints, child, order_key,
# length of state, of log], ...]
READ_OVERDUE = """
SELECT
    json_group_array(json_array(
        seq, stream, id, task, priority, cancel_us, unique_key, consumer, constraints, child, order_key,
        length(state), length(log))),
    CAST(group_concat(state, '') AS BLOB), CAST(group_concat(log, '') AS BLOB)
FROM (
    SELECT seq, stream, message.id, task, priority, cancel_us, unique_key, state, constraints, child,
        order_key,
        (SELECT log FROM headrace_progress AS progress
            WHERE progress.seq = message.seq AND progress.claim = message.claim) AS log,
        (SELECT consumer FROM headrace_workers WHERE headrace_workers.worker = message.worker) AS consumer
    FROM json_each(?1) AS wanted CROSS JOIN headrace_messages AS message
    WHERE stream = wanted.value ->> 0 AND place = 7 AND at_us <= wanted.value ->> 1
    LIMIT ?2)
"""

# [seq, ...]: back to the lane of returned messages, with a state that cannot be read
RETURN_UNREAD = """
UPDATE headrace_messages SET place = 3 - iif(child, 8, 0) - iif(constraints IS NULL, 0, 32),
    lane = 3, at_us = ?2
WHERE seq IN (SELECT value FROM json_each(?1))
"""

# --- due times -------------------------------------------------------------------------------------------

# [stream, ...]
NEXT_DUE = """
SELECT min(due_us) FROM (
    SELECT (SELECT min(at_us) FROM headrace_messages WHERE stream = wanted.value AND place = 8) AS due_us
    FROM json_each(?1) AS wanted
    UNION ALL
    SELECT (SELECT min(at_us) FROM headrace_messages WHERE stream = wanted.value AND place = 9)
    FROM json_each(?1) AS wanted)
"""

# → [[at_us, seq, constraints, its place after that, order_key, id], ...], the earliest first
FIND_DUE = """
SELECT json_group_array(json_array(at_us, seq, constraints, lane, order_key, id)) FROM (
    SELECT at_us, seq, constraints, lane - iif(child, 8, 0) - iif(constraints IS NULL, 0, 32) AS lane,
        order_key, id
    FROM headrace_messages WHERE stream = ? AND place = ? AND at_us <= ?
    ORDER BY at_us, seq LIMIT ?)
"""

# [seq, ...]; times one microsecond apart, so that messages are ready in the order of their due times
PROMOTE = """
UPDATE headrace_messages SET place = lane - iif(child, 8, 0) - iif(constraints IS NULL, 0, 32),
    at_us = ?2 + due.key
FROM json_each(?1) AS due WHERE seq = due.value
"""

# --- pruning ---------------------------------------------------------------------------------------------

PRUNE_END_RECORDS = """
DELETE FROM headrace_messages WHERE seq IN (
    SELECT seq FROM headrace_streams AS streams CROSS JOIN json_each('[11, 12, 13]') AS ended
        CROSS JOIN headrace_messages AS message
    WHERE namespace = ?1 AND message.stream = streams.stream AND place = ended.value AND at_us <= ?2
    LIMIT ?3)
"""

PRUNE_KEYS = """
DELETE FROM headrace_unique_keys WHERE (stream, key) IN (
    SELECT stream, key FROM headrace_unique_keys INDEXED BY headrace_unique_keys_expiry
    WHERE expires_us <= ?2
    AND stream IN (SELECT stream FROM headrace_streams WHERE namespace = ?1) LIMIT ?3)
"""

PRUNE_PRODUCERS = """
DELETE FROM headrace_producers WHERE (stream, producer) IN (
    SELECT stream, producer FROM headrace_producers WHERE at_us <= ?2
    AND stream IN (SELECT stream FROM headrace_streams WHERE namespace = ?1) LIMIT ?3)
"""

PRUNE_WORKERS = """
UPDATE headrace_workers SET info = NULL WHERE worker IN (
    SELECT worker FROM headrace_workers WHERE namespace = ?1 AND info IS NOT NULL AND seen_us <= ?2 LIMIT ?3)
"""

# Deletes the progress of messages that are over, or were claimed again.
PRUNE_PROGRESS = """
DELETE FROM headrace_progress WHERE seq IN (
    SELECT seq FROM headrace_progress AS progress WHERE NOT EXISTS (
        SELECT 1 FROM headrace_messages AS message
        WHERE message.seq = progress.seq AND message.claim = progress.claim AND place = 7)
    LIMIT ?)
"""

# Budgets whose tokens are all back
PRUNE_BUDGETS = """
DELETE FROM headrace_budgets WHERE budget IN (
    SELECT budget FROM headrace_budgets WHERE namespace = ?1 AND running <= 0 AND next_us <= ?2
        AND NOT EXISTS (SELECT 1 FROM headrace_lines WHERE blocked_by = budget) LIMIT ?3)
"""

PRUNE_WORKER_NAMES = """
DELETE FROM headrace_workers WHERE namespace = ?1 AND info IS NULL AND seen_us <= ?2
"""

IS_SOMETHING_PAST = """
SELECT EXISTS (
    SELECT 1 FROM headrace_streams AS streams CROSS JOIN json_each('[11, 12, 13]') AS ended
        CROSS JOIN headrace_messages AS message
    WHERE namespace = ?1 AND message.stream = streams.stream AND place = ended.value AND at_us <= ?2
) OR EXISTS (
    SELECT 1 FROM headrace_unique_keys WHERE expires_us <= ?2
) OR EXISTS (
    SELECT 1 FROM headrace_budgets WHERE namespace = ?1 AND running <= 0 AND next_us <= ?2
        AND NOT EXISTS (SELECT 1 FROM headrace_lines WHERE blocked_by = budget)
) OR EXISTS (
    SELECT 1 FROM headrace_history WHERE until_us IS NOT NULL AND until_us <= ?2
) OR EXISTS (
    SELECT 1 FROM headrace_producers WHERE at_us <= ?3
) OR EXISTS (
    SELECT 1 FROM headrace_workers WHERE namespace = ?1 AND info IS NOT NULL AND seen_us <= ?4
) OR EXISTS (
    SELECT 1 FROM headrace_progress AS progress WHERE NOT EXISTS (
        SELECT 1 FROM headrace_messages AS message
        WHERE message.seq = progress.seq AND message.claim = progress.claim AND place = 7)
)
"""

# --- workers ---------------------------------------------------------------------------------------------

WRITE_WORKER = """
INSERT INTO headrace_workers (namespace, consumer, seen_us, info) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET seen_us = excluded.seen_us, info = excluded.info
"""

FORGET_WORKER = "UPDATE headrace_workers SET info = NULL WHERE namespace = ? AND consumer = ?"

LIST_WORKERS = """
SELECT info FROM headrace_workers WHERE namespace = ? AND info IS NOT NULL AND seen_us > ? ORDER BY worker
"""

# --- control messages ------------------------------------------------------------------------------------

ADD_NOTICES = """
INSERT INTO headrace_notices (namespace, at_us, content) SELECT ?1, ?2, value FROM json_each(?3)
"""

FORGET_NOTICES = """
DELETE FROM headrace_notices WHERE seq <= (SELECT max(seq) FROM headrace_notices) - ?
"""

LAST_NOTICE = "SELECT coalesce(max(seq), 0) FROM headrace_notices"

READ_NOTICES = """
SELECT json_group_array(json_array(seq, at_us, content)) FROM (
    SELECT seq, at_us, content FROM headrace_notices WHERE namespace = ? AND seq > ? ORDER BY seq)
"""
