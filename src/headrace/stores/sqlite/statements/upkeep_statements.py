"""The statements about pruning, workers and control messages."""

from __future__ import annotations

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

ADD_ORDERS = """
INSERT INTO headrace_orders (namespace, at_us, content) SELECT ?1, ?2, value FROM json_each(?3)
"""

FORGET_ORDERS = """
DELETE FROM headrace_orders WHERE seq <= (SELECT max(seq) FROM headrace_orders) - ?
"""

LAST_ORDER = "SELECT coalesce(max(seq), 0) FROM headrace_orders"

READ_ORDERS = """
SELECT json_group_array(json_array(seq, at_us, content)) FROM (
    SELECT seq, at_us, content FROM headrace_orders WHERE namespace = ? AND seq > ? ORDER BY seq)
"""
