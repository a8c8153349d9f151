"""The statements about outboxes. Rows travel as JSON arrays (see bulk_binding.py)."""

from __future__ import annotations

ADD = "INSERT INTO headrace_outgoing (stream, at_us, content) VALUES (?, ?, ?)"

# [[kind, name], ...]
IS_ANY = """
SELECT EXISTS (
    SELECT 1 FROM json_each(?2) AS wanted CROSS JOIN headrace_streams AS streams CROSS JOIN headrace_outgoing
    WHERE namespace = ?1 AND streams.kind = wanted.value ->> 0 AND streams.name = wanted.value ->> 1
        AND headrace_outgoing.stream = streams.stream)
"""

# → [length of a content, ...], the first ones of a stream
SIZES = """
SELECT json_group_array(size) FROM (
    SELECT length(content) AS size FROM headrace_outgoing WHERE stream = ? ORDER BY seq LIMIT ?)
"""

READ = "SELECT at_us, content FROM headrace_outgoing WHERE stream = ? ORDER BY seq LIMIT ?"

NUMBERS = "SELECT seq FROM headrace_outgoing WHERE stream = ? ORDER BY seq LIMIT ?"

# [seq, ...]
FORGET = "DELETE FROM headrace_outgoing WHERE seq IN (SELECT value FROM json_each(?))"

READ_BATCH = "SELECT batch FROM headrace_outboxes WHERE stream = ?"

WRITE_BATCH = """
INSERT INTO headrace_outboxes (stream, batch) VALUES (?, ?) ON CONFLICT DO UPDATE SET batch = excluded.batch
"""

LIST = """
SELECT kind, name, count(*), min(at_us) FROM headrace_outgoing JOIN headrace_streams USING (stream)
WHERE namespace = ? GROUP BY stream
"""

# Adds a dead letter: stream, id, task, time, lane, priority, body, number, child, unique key and its kind,
# reason, failure
BURY = """
INSERT INTO headrace_messages
    (stream, id, task, place, at_us, lane, priority, expires_us, body, since_us, claim, worker, child,
     unique_key, unique_until, reason, failure)
VALUES (?1, ?2, ?3, 10, ?4, ?5, ?6, 0, ?7, ?4, ?8, 1 << 40, ?9, ?10, ?11, ?12, ?13) ON CONFLICT DO NOTHING
"""
