"""The statements that read records: of one message, and listings."""

from __future__ import annotations

from headrace.stores.sql import lanes

_RECORD = """
SELECT message.seq, message.id, place, message.at_us, since_us, priority, task, reason, note, state, failure,
    result, body, worker, unique_key, unique_until, fraction, words, progress.at_us, log, expires_us,
    CASE WHEN place < -20 THEN (
        SELECT name FROM headrace.lines AS line JOIN headrace.budgets AS budgets ON budget = blocked_by
        WHERE line.constraints = message.constraints AND line.place = message.place) END
FROM headrace.messages AS message LEFT JOIN headrace.progress AS progress
    ON place = 7 AND progress.stream = message.stream AND progress.id = message.id
        AND progress.claim = message.claim
"""

# namespace, kind, name, id
READ_RECORD = f"""{_RECORD}
WHERE message.id = $4 AND message.stream + 0 = (
    SELECT stream FROM headrace.streams WHERE namespace = $1 AND kind = $2 AND name = $3
)
"""  # nosec B608 # constants only

# stream, ids
READ_RECORDS = f"{_RECORD} WHERE message.stream + 0 = $1 AND message.id = ANY ($2::text[])"

# The listings return seq, id, place, at_us, task, reason. Bodies are read only for the shown rows.
_COLUMNS = "seq, id, place, at_us, task, reason"

# stream, the time and number after which the page begins, since when, limit
_OF_PLACE = f"""
    (SELECT {_COLUMNS} FROM headrace.messages
    WHERE stream = $1 AND place = {{}} AND (at_us, seq) < ($2::bigint, $3::bigint) AND at_us > $4
    ORDER BY at_us DESC, seq DESC LIMIT $5)"""  # nosec B608 # constants only


def latest_of(*several: int) -> str:
    """Lists several places, the latest first. Each place is read in its own order, as far as needed."""
    each = "\n    UNION ALL".join(_OF_PLACE.format(place) for place in several)
    return f"SELECT * FROM ({each}) AS listed\n    ORDER BY at_us DESC, seq DESC LIMIT $5"  # nosec B608 # constants only


LIST_QUEUED = latest_of(
    *range(lanes.SUSPECT - lanes.CHILD - lanes.LIMITED, lanes.LOWEST - lanes.CHILD - lanes.LIMITED + 1),
    *range(lanes.SUSPECT - lanes.LIMITED, lanes.LOWEST - lanes.LIMITED + 1),
    *range(lanes.SUSPECT - lanes.CHILD, lanes.LOWEST - lanes.CHILD + 1),
    lanes.PARKED,
    *range(lanes.SUSPECT, lanes.LOWEST + 1),
)
LIST_OVER = latest_of(lanes.SUCCEEDED, lanes.CANCELLED, lanes.EXPIRED)

# By lease, the oldest first. A message that is renewed meanwhile appears twice, and none is missed.
LIST_RUNNING = f"""
    SELECT {_COLUMNS} FROM headrace.messages
    WHERE stream = $1 AND place = 7 AND (at_us, seq) > ($2::bigint, $3::bigint) AND since_us > $4
    ORDER BY at_us, seq LIMIT $5"""  # nosec B608 # constants only

# Ids and times of death, the oldest first.
OLDEST_DEAD = """
SELECT id, at_us FROM headrace.messages WHERE stream = $1 AND place = $2 ORDER BY at_us, seq LIMIT $3
"""
