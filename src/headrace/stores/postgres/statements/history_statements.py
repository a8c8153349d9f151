"""The statements about the history."""

from __future__ import annotations

from headrace.core.history.recording import SCANNED

# streams, ids, ends, tasks, statuses, kept until, sizes, contents
WRITE = """
INSERT INTO headrace.history (stream, id, ended_us, task, status, until_us, size, content)
SELECT * FROM unnest($1::integer[], $2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::bigint[],
    $7::integer[], $8::bytea[])
ON CONFLICT (stream, id) DO UPDATE SET ended_us = excluded.ended_us, task = excluded.task,
    status = excluded.status, until_us = excluded.until_us, size = excluded.size, content = excluded.content
WHERE excluded.ended_us >= history.ended_us
"""

# stream, most entries, most bytes → end and id of the latest entry beyond these limits
FIRST_BEYOND = """
SELECT ended_us, id FROM (
    SELECT ended_us, id, row_number() OVER latest AS number, sum(size) OVER latest AS total
    FROM headrace.history WHERE stream = $1 WINDOW latest AS (ORDER BY ended_us DESC, id DESC)) AS ranked
WHERE number > $2::bigint OR total > $3::bigint ORDER BY ended_us DESC, id DESC LIMIT 1
"""

# stream, end, id, at most so many
TRIM = """
WITH oldest AS MATERIALIZED (
    SELECT stream, id FROM headrace.history WHERE stream = $1 AND (ended_us, id) <= ($2, $3::text)
    ORDER BY ended_us, id LIMIT $4 FOR UPDATE SKIP LOCKED)
DELETE FROM headrace.history AS history USING oldest
WHERE history.stream = oldest.stream AND history.id = oldest.id
"""

# namespace, kind, name, end, id, now, status or NULL, task or NULL, limit
LIST = f"""
SELECT id, task, status, ended_us, content, coalesce(until_us, 0) FROM (
    SELECT * FROM headrace.history
    WHERE stream = (SELECT stream FROM headrace.streams WHERE namespace = $1 AND kind = $2 AND name = $3)
        AND (ended_us, id) < ($4, $5::text)
    ORDER BY ended_us DESC, id DESC LIMIT {SCANNED}) AS scanned
WHERE (until_us IS NULL OR until_us > $6) AND ($7::text IS NULL OR status = $7)
    AND ($8::bytea IS NULL OR task = $8)
ORDER BY ended_us DESC, id DESC LIMIT $9
"""  # nosec B608 # constants only

# namespace, kind, name, end, id → the last entry that one listing looks at, if there may be more behind it
LAST_SCANNED = f"""
SELECT ended_us, id FROM headrace.history
WHERE stream = (SELECT stream FROM headrace.streams WHERE namespace = $1 AND kind = $2 AND name = $3)
    AND (ended_us, id) < ($4, $5::text)
ORDER BY ended_us DESC, id DESC OFFSET {SCANNED - 1} LIMIT 1
"""  # nosec B608 # constants only

# namespace, kind, name, ids, now
FIND = """
SELECT id, task, status, ended_us, content, coalesce(until_us, 0) FROM headrace.history
WHERE stream = (SELECT stream FROM headrace.streams WHERE namespace = $1 AND kind = $2 AND name = $3)
    AND id = ANY ($4::text[]) AND (until_us IS NULL OR until_us > $5)
"""

# namespace, now, at most so many
PRUNE = """
WITH past AS MATERIALIZED (
    SELECT stream, id FROM headrace.history
    WHERE until_us <= $2 AND stream IN (SELECT stream FROM headrace.streams WHERE namespace = $1)
    LIMIT $3 FOR UPDATE SKIP LOCKED)
DELETE FROM headrace.history AS history USING past WHERE history.stream = past.stream AND history.id = past.id
"""

FORGET = "DELETE FROM headrace.history WHERE stream = $1"
