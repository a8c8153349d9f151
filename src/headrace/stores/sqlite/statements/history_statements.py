"""SQL of the history."""

from __future__ import annotations

from headrace.core.history.recording import SCANNED

# [[stream, id, ended_us, task, status, until_us, size, start of the content, length], ...], the contents. The
# condition is for the parser: without it, ON CONFLICT would belong to a join.
WRITE = """
INSERT INTO headrace_history (stream, id, ended_us, task, status, until_us, size, content)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    coalesce(CAST(substr(?2, value ->> 7, value ->> 8) AS BLOB), x'')
FROM json_each(?1) WHERE true
ON CONFLICT (stream, id) DO UPDATE SET ended_us = excluded.ended_us, task = excluded.task,
    status = excluded.status, until_us = excluded.until_us, size = excluded.size, content = excluded.content
WHERE excluded.ended_us >= headrace_history.ended_us
"""

# stream, [id, ...]
FORGET = "DELETE FROM headrace_history WHERE stream = ?1 AND id IN (SELECT value FROM json_each(?2))"

SIZE = "SELECT entries, size FROM headrace_history_sizes WHERE stream = ?"

# The oldest entries: id and size
OLDEST = "SELECT id, size FROM headrace_history WHERE stream = ? ORDER BY ended_us, id LIMIT ?"

# stream, ended_us, id, now, status or NULL, task or NULL, limit
LIST = f"""
SELECT id, task, status, ended_us, content, coalesce(until_us, 0) FROM headrace_history
WHERE rowid IN (
    SELECT rowid FROM (
        SELECT rowid, status, task, until_us FROM headrace_history
        WHERE stream = ?1 AND (ended_us, id) < (?2, ?3) ORDER BY ended_us DESC, id DESC LIMIT {SCANNED})
    WHERE (until_us IS NULL OR until_us > ?4) AND (?5 IS NULL OR status = ?5) AND (?6 IS NULL OR task = ?6))
ORDER BY ended_us DESC, id DESC LIMIT ?7
"""  # nosec B608 # constants only

# The last entry that one listing looks at, if there may be more behind it.
LAST_SCANNED = f"""
SELECT ended_us, id FROM headrace_history
WHERE stream = ?1 AND (ended_us, id) < (?2, ?3) ORDER BY ended_us DESC, id DESC LIMIT 1 OFFSET {SCANNED - 1}
"""  # nosec B608 # constants only

# stream, [id, ...], now
FIND = """
SELECT id, task, status, ended_us, content, coalesce(until_us, 0) FROM headrace_history
WHERE stream = ?1 AND id IN (SELECT value FROM json_each(?2)) AND (until_us IS NULL OR until_us > ?3)
"""

PRUNE = """
DELETE FROM headrace_history WHERE rowid IN (
    SELECT rowid FROM headrace_history INDEXED BY headrace_history_expiry
    WHERE until_us IS NOT NULL AND until_us <= ?2
    AND stream IN (SELECT stream FROM headrace_streams WHERE namespace = ?1) LIMIT ?3)
"""

FORGET_STREAM = (
    "DELETE FROM headrace_history WHERE stream = ?",
    "DELETE FROM headrace_history_sizes WHERE stream = ?",
)
