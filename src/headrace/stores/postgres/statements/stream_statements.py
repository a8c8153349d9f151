"""The statements about streams: their settings, counts and due times."""

from __future__ import annotations

from . import history_statements, limit_statements

# namespace, kind, name
FIND = "SELECT stream FROM headrace.streams WHERE namespace = $1 AND kind = $2 AND name = $3"

# namespace, kind, name → number, whether it held messages with constraints
FIND_WITH_LINES = """
SELECT stream, held_lines FROM headrace.streams WHERE namespace = $1 AND kind = $2 AND name = $3
"""

# namespace, kind, name, whether it is established by this
OPEN = "SELECT headrace.open_stream($1, $2, $3, $4)"

# namespace, kind, name
OPEN_DRAINING = "SELECT headrace.open_draining($1, $2, $3)"

# Waits for steps that write to the stream, and for its removal. Later steps wait behind it. So it does not
# wait long for a transaction of a user, but is run again. namespace, kind, name
LOCK_FOR_REMOVAL = """
SELECT pg_advisory_xact_lock(hashtextextended($1::text || E'\\n' || $2 || E'\\n' || $3, 0))
FROM set_config('lock_timeout', '100', true)
"""

# Only one step at a time may compare the counts of a stream with a limit.
LOCK_LIMIT = "SELECT pg_advisory_xact_lock(hashtextextended('headrace limit', $1))"

READ_LEASE = """
SELECT lease_us, longer_lease_us, longer_until_us FROM headrace.streams
WHERE namespace = $1 AND kind = $2 AND name = $3 AND established
"""

LOCK_LEASE = (
    "SELECT lease_us, longer_lease_us, longer_until_us FROM headrace.streams WHERE stream = $1 FOR UPDATE"
)

WRITE_LEASE = """
UPDATE headrace.streams SET lease_us = $2, longer_lease_us = $3, longer_until_us = $4 WHERE stream = $1
"""

WRITE_PAUSED = "UPDATE headrace.streams SET paused = $2 WHERE stream = $1"

LIST = "SELECT kind, name FROM headrace.streams WHERE namespace = $1 AND established ORDER BY stream"

# namespace, kinds, names → index from 1, number, lease, the longer one before, until when
RESOLVE = """
SELECT position, stream, lease_us, longer_lease_us, longer_until_us
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS wanted (kind, name, position)
    JOIN headrace.streams AS streams
        ON namespace = $1 AND streams.kind = wanted.kind AND streams.name = wanted.name
ORDER BY position
"""

ADD_COUNTS = """
SELECT headrace.add_counts(
    $1::integer[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
"""

# stream → queued, parked and scheduled messages
READ_FILLED = """
SELECT coalesce(sum(queued) + sum(parked) + sum(scheduled), 0)::bigint FROM headrace.counts WHERE stream = $1
"""

# namespace, kind, name, now, a limit for the number of due messages
READ_COUNTS = """
SELECT coalesce(queued, 0), coalesce(running, 0), coalesce(scheduled, 0), coalesce(retrying, 0),
    coalesce(dead, 0), coalesce(parked, 0), paused,
    (SELECT count(*) FROM (
        SELECT FROM headrace.messages
        WHERE stream = streams.stream AND place = 8 AND at_us <= $4 LIMIT $5) AS scheduled) +
    (SELECT count(*) FROM (
        SELECT FROM headrace.messages
        WHERE stream = streams.stream AND place = 9 AND at_us <= $4 LIMIT $5) AS retrying),
    (SELECT min(ready_us) FROM (
        SELECT (SELECT at_us FROM headrace.messages
                WHERE stream = streams.stream AND place = searched ORDER BY at_us LIMIT 1) AS ready_us
        FROM unnest(CASE WHEN held_children THEN '{-6,-5,-4,-3,-2,2,3,4,5,6}'::smallint[]
            ELSE '{2,3,4,5,6}'::smallint[] END || CASE
            WHEN held_lines THEN '{-38,-37,-36,-35,-34,-30,-29,-28,-27,-26}'::smallint[] END || CASE
            WHEN kind = 'queue' THEN '{1}'::smallint[] END) AS searched
        ) AS lanes)
FROM headrace.streams AS streams, LATERAL (
    SELECT sum(queued)::bigint AS queued, sum(running)::bigint AS running,
        sum(scheduled)::bigint AS scheduled, sum(retrying)::bigint AS retrying,
        sum(dead)::bigint AS dead, sum(parked)::bigint AS parked
    FROM headrace.counts WHERE counts.stream = streams.stream) AS counts
WHERE namespace = $1 AND kind = $2 AND name = $3
"""

# streams
NEXT_DUE = """
SELECT min(due_us) FROM (
    SELECT (SELECT at_us FROM headrace.messages WHERE stream = wanted AND place = waiting
        ORDER BY at_us LIMIT 1) AS due_us
    FROM unnest($1::integer[]) AS wanted, unnest('{8,9}'::smallint[]) AS waiting) AS due
"""

NOW = "SELECT headrace.now_us($1)"

IS_IN_USE = """
SELECT EXISTS (SELECT FROM headrace.messages WHERE stream = $1 AND place < 11)
    OR EXISTS (SELECT FROM headrace.events WHERE stream = $1)
    OR EXISTS (SELECT FROM headrace.groups WHERE topic = $1 AND NOT removed)
    OR EXISTS (SELECT FROM headrace.schedules WHERE stream = $1)
    OR EXISTS (SELECT FROM headrace.outgoing WHERE stream = $1)
"""

IS_ESTABLISHED = "SELECT established FROM headrace.streams WHERE stream = $1"

# The rows that an unused stream may leave behind, the stream itself last.
FORGET = (
    "DELETE FROM headrace.producers WHERE stream = $1",
    "DELETE FROM headrace.unique_keys WHERE stream = $1",
    "DELETE FROM headrace.messages WHERE stream = $1",
    "DELETE FROM headrace.progress WHERE stream = $1",
    "DELETE FROM headrace.groups WHERE topic = $1",
    "DELETE FROM headrace.topics WHERE stream = $1",
    "DELETE FROM headrace.counts WHERE stream = $1",
    "DELETE FROM headrace.outboxes WHERE stream = $1",
    *limit_statements.FORGET_LINES,
    history_statements.FORGET,
    "DELETE FROM headrace.streams WHERE stream = $1",
)
