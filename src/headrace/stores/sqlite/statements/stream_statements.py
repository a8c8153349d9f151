"""The statements about streams and their counts. The remarks in message_statements.py apply here too."""

from __future__ import annotations

FIND_STREAM = """
SELECT stream, established, queued, scheduled, sealed, held_children, held_lines, parked
FROM headrace_streams
WHERE namespace = ? AND kind = ? AND name = ?
"""

ADD_STREAM = """
INSERT INTO headrace_streams (namespace, kind, name, established) VALUES (?, ?, ?, ?)
RETURNING stream, established, queued, scheduled, sealed, held_children, held_lines, parked
"""

ESTABLISH_STREAM = "UPDATE headrace_streams SET established = 1 WHERE stream = ?"

NOTE_CHILDREN = "UPDATE headrace_streams SET held_children = 1 WHERE stream = ?"

READ_LEASE = """
SELECT lease_us, longer_lease_us, longer_until_us FROM headrace_streams
WHERE namespace = ? AND kind = ? AND name = ? AND established
"""

WRITE_LEASE = """
UPDATE headrace_streams SET lease_us = ?, longer_lease_us = ?, longer_until_us = ? WHERE stream = ?
"""

# [[kind, name], ...]
LIST_LEASES = """
SELECT kind, name, lease_us FROM json_each(?2) AS wanted CROSS JOIN headrace_streams
WHERE namespace = ?1 AND kind = wanted.value ->> 0 AND name = wanted.value ->> 1 AND lease_us IS NOT NULL
"""

WRITE_PAUSED = "UPDATE headrace_streams SET paused = ? WHERE stream = ?"

LIST_STREAMS = """
SELECT kind, name FROM headrace_streams WHERE namespace = ? AND established ORDER BY stream
"""

LIST_PAUSED = "SELECT kind, name FROM headrace_streams WHERE namespace = ? AND paused"

# [[kind, name], ...]
# → [[its index, number, paused, whether it held child work, whether it held lines, lease, the longer one
# before, until when], ...]
RESOLVE_STREAMS = """
SELECT json_group_array(json_array(
    wanted.key, stream, paused, held_children, held_lines, lease_us, longer_lease_us, longer_until_us))
FROM json_each(?2) AS wanted CROSS JOIN headrace_streams
WHERE namespace = ?1 AND kind = wanted.value ->> 0 AND name = wanted.value ->> 1
"""

# The differences to add to each count.
ADD_COUNTS = """
UPDATE headrace_streams SET
    queued = queued + ?2, running = running + ?3, scheduled = scheduled + ?4, retrying = retrying + ?5,
    dead = dead + ?6, parked = parked + ?7
WHERE stream = ?1
"""

# `due` is counted up to a limit. The other counts cost the same for any number of messages.
READ_COUNTS = """
SELECT queued + parked, running, scheduled, retrying, dead, paused,
    (SELECT count(*) FROM (
        SELECT 1 FROM headrace_messages
        WHERE stream = streams.stream AND place = 8 AND at_us <= ?4 LIMIT ?5)) +
    (SELECT count(*) FROM (
        SELECT 1 FROM headrace_messages
        WHERE stream = streams.stream AND place = 9 AND at_us <= ?4 LIMIT ?5)),
    (SELECT min(ready_us) FROM (
        SELECT (SELECT min(at_us) FROM headrace_messages
                WHERE stream = streams.stream AND place = lane.value) AS ready_us
        FROM json_each(
            iif(held_children, '[-6, -5, -4, -3, -2, 1, 2, 3, 4, 5, 6]', '[1, 2, 3, 4, 5, 6]')) AS lane
        UNION ALL
        SELECT (SELECT min(at_us) FROM headrace_messages
                WHERE stream = streams.stream AND place = lane.value)
        FROM json_each(iif(held_lines, '[-38, -37, -36, -35, -34, -30, -29, -28, -27, -26]', '[]')) AS lane
        UNION ALL
        SELECT (SELECT min(at_us) FROM headrace_messages
                WHERE stream = streams.stream AND place = 1 AND kind = 'queue')))
FROM headrace_streams AS streams WHERE namespace = ?1 AND kind = ?2 AND name = ?3
"""
