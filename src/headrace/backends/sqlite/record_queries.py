"""The statements that look: one message, and listings."""

from __future__ import annotations

_RECORD = """
SELECT seq, id, place, at_us, since_us, priority, task, reason, note, state, failure, result, body,
    (SELECT consumer FROM headrace_workers WHERE headrace_workers.worker = message.worker), unique_key,
    unique_until,
    (SELECT json_array(fraction, text, progress.at_us) FROM headrace_progress AS progress
        WHERE place = 7 AND progress.seq = message.seq AND progress.claim = message.claim
            AND fraction IS NOT NULL),
    (SELECT log FROM headrace_progress AS progress
        WHERE place = 7 AND progress.seq = message.seq AND progress.claim = message.claim),
    expires_us
FROM headrace_messages AS message
"""

READ_RECORD = f"""{_RECORD}
WHERE stream = (SELECT stream FROM headrace_streams WHERE namespace = ?1 AND kind = ?2 AND name = ?3)
    AND id = ?4
"""

# The same by its number.
READ_RECORD_OF_SEQ = f"""{_RECORD}
WHERE stream = (SELECT stream FROM headrace_streams WHERE namespace = ?1 AND kind = ?2 AND name = ?3)
    AND seq = ?4
"""

# [seq, ...]
READ_RECORDS = f"{_RECORD} WHERE seq IN (SELECT value FROM json_each(?))"

# The listings answer [[seq, id, place, at_us, task, reason], ...]; bodies are read for what is shown alone.
# By id, an order that a message keeps from its append to its mark: pages neither miss nor repeat one. After a
# message whose id is no text the next page goes on by its number.
LIST_RECORDS = """
SELECT json_group_array(json_array(seq, id, place, at_us, task, reason)) FROM (
    SELECT seq, id, place, at_us, task, reason FROM headrace_messages
    WHERE stream = ?1 AND id > coalesce((SELECT id FROM headrace_messages WHERE seq = ?4), ?2)
    ORDER BY id LIMIT ?3)
"""

LIST_RECORDS_OF_STATUS = """
SELECT json_group_array(json_array(seq, id, place, at_us, task, reason)) FROM (
    SELECT seq, id, place, at_us, task, reason FROM headrace_messages
    WHERE stream = ?1 AND place BETWEEN ?2 AND ?3 AND (place, at_us, seq) > (?4, ?5, ?6)
    ORDER BY place, at_us, seq LIMIT ?7)
"""

LIST_DEAD = """
SELECT json_group_array(json_array(seq, id, place, at_us, task, reason)) FROM (
    SELECT seq, id, place, at_us, task, reason FROM headrace_messages
    WHERE stream = ?1 AND place = 10 AND (at_us, seq) < (?2, ?3)
    ORDER BY at_us DESC, seq DESC LIMIT ?4)
"""

# [[kind, name, id], ...] → the indexes of those that wait or run
STILL_GOING = """
SELECT json_group_array(wanted.key) FROM json_each(?2) AS wanted
    CROSS JOIN headrace_streams AS streams CROSS JOIN headrace_messages AS message
WHERE namespace = ?1 AND streams.kind = wanted.value ->> 0 AND streams.name = wanted.value ->> 1
    AND message.stream = streams.stream AND message.id = wanted.value ->> 2 AND message.place <= 9
"""
