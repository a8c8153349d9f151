"""The statements that read records: of one message, and listings."""

from __future__ import annotations

from headrace.stores.sql import lanes

_RECORD = """
SELECT seq, id, place, at_us, since_us, priority, task, reason, note, state, failure, result, body,
    (SELECT consumer FROM headrace_workers WHERE headrace_workers.worker = message.worker), unique_key,
    unique_until,
    (SELECT json_array(fraction, text, progress.at_us) FROM headrace_progress AS progress
        WHERE place = 7 AND progress.seq = message.seq AND progress.claim = message.claim
            AND fraction IS NOT NULL),
    (SELECT log FROM headrace_progress AS progress
        WHERE place = 7 AND progress.seq = message.seq AND progress.claim = message.claim),
    expires_us,
    iif(place < 0 AND constraints IS NOT NULL, (
        SELECT name FROM headrace_lines AS line CROSS JOIN headrace_budgets
        WHERE line.constraints = message.constraints AND line.place = message.place AND budget = blocked_by),
        NULL)
FROM headrace_messages AS message
"""

READ_RECORD = f"""{_RECORD}
WHERE stream = (SELECT stream FROM headrace_streams WHERE namespace = ?1 AND kind = ?2 AND name = ?3)
    AND id = ?4
"""  # nosec B608 # constants only

# READ_RECORD by the number of the message.
READ_RECORD_OF_SEQ = f"""{_RECORD}
WHERE stream = (SELECT stream FROM headrace_streams WHERE namespace = ?1 AND kind = ?2 AND name = ?3)
    AND seq = ?4
"""  # nosec B608 # constants only

# [seq, ...]
READ_RECORDS = f"{_RECORD} WHERE seq IN (SELECT value FROM json_each(?))"  # nosec B608 # constants only

# The listings return [[seq, id, place, at_us, task, reason], ...]. Bodies are read only for the shown rows.
_LINES = """
SELECT json_group_array(json_array(seq, id, place, at_us, task, reason)) FROM (
    {} LIMIT ?6)
"""

_OF_PLACE = """
    SELECT seq, id, place, at_us, task, reason FROM headrace_messages
    WHERE stream = ?1 AND place = {} AND (at_us, seq) < (?3, ?4) AND at_us > ?5"""


def _latest_of(*several: int) -> str:
    """Lists several places, the latest first. Each place is read in its own order, as far as needed."""
    each = "\n    UNION ALL".join(_OF_PLACE.format(place) for place in several)
    return _LINES.format(f"{each}\n    ORDER BY at_us DESC, seq DESC")


# For a listing of a single place, ?2 is that place.
LIST_PLACE = _LINES.format(_OF_PLACE.format("?2") + " ORDER BY at_us DESC, seq DESC")
LIST_QUEUED = _latest_of(
    *range(lanes.SUSPECT - lanes.CHILD - lanes.LIMITED, lanes.LOWEST - lanes.CHILD - lanes.LIMITED + 1),
    *range(lanes.SUSPECT - lanes.LIMITED, lanes.LOWEST - lanes.LIMITED + 1),
    *range(lanes.SUSPECT - lanes.CHILD, lanes.LOWEST - lanes.CHILD + 1),
    lanes.PARKED,
    *range(lanes.SUSPECT, lanes.LOWEST + 1),
)
LIST_OVER = _latest_of(lanes.SUCCEEDED, lanes.CANCELLED, lanes.EXPIRED)

# By lease, the oldest first. A message that is renewed meanwhile appears twice, and none is missed.
LIST_RUNNING = _LINES.format("""
    SELECT seq, id, place, at_us, task, reason FROM headrace_messages
    WHERE stream = ?1 AND place = ?2 AND (at_us, seq) > (?3, ?4) AND since_us > ?5 ORDER BY at_us, seq""")

# Ids and times of death, the oldest first.
OLDEST_DEAD = """
SELECT id, at_us FROM headrace_messages WHERE stream = ? AND place = ? ORDER BY at_us, seq LIMIT ?
"""

# [[kind, name, id], ...] → the indexes of those that wait or run
STILL_GOING = """
SELECT json_group_array(wanted.key) FROM json_each(?2) AS wanted
    CROSS JOIN headrace_streams AS streams CROSS JOIN headrace_messages AS message
WHERE namespace = ?1 AND streams.kind = wanted.value ->> 0 AND streams.name = wanted.value ->> 1
    AND message.stream = streams.stream AND message.id = wanted.value ->> 2 AND message.place <= 9
"""
