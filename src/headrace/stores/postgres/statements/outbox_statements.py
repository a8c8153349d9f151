"""The statements about outboxes of streams, and about messages that were never queued."""

from __future__ import annotations

# streams, contents, now; in this order
ADD = """
INSERT INTO headrace.outgoing (stream, at_us, content)
SELECT stream, $3, content
FROM unnest($1::integer[], $2::bytea[]) WITH ORDINALITY AS added (stream, content, position)
ORDER BY position
"""

# namespace, kinds, names → index from 1, number of the stream: streams whose outbox is not empty
FIND = """
SELECT position, streams.stream
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS wanted (kind, name, position)
    JOIN headrace.streams AS streams
        ON namespace = $1 AND streams.kind = wanted.kind AND streams.name = wanted.name
WHERE EXISTS (SELECT FROM headrace.outgoing WHERE outgoing.stream = streams.stream)
ORDER BY position
"""

# namespace → kind, name, how many wait, when the first one was written
LIST = """
SELECT kind, name, count(*), min(at_us)
FROM headrace.outgoing JOIN headrace.streams USING (stream) WHERE namespace = $1 GROUP BY kind, name
"""

# stream, now; ids, tasks, lanes, priorities, child work, keys, kinds of key, bodies, reasons, failures,
# constraints, order keys → ids
BURY = """
INSERT INTO headrace.messages
    (stream, id, task, place, at_us, since_us, lane, priority, expires_us, child, unique_key, unique_until,
    body, reason, failure, staged, order_key)
SELECT $1, id, task, 10, $2, $2, lane, priority, 0, child, unique_key, unique_until, body, reason, failure,
    staged, order_key
FROM unnest($3::text[], $4::text[], $5::smallint[], $6::smallint[], $7::boolean[], $8::text[], $9::text[],
    $10::bytea[], $11::text[], $12::bytea[], $13::text[], $14::text[])
    AS buried (id, task, lane, priority, child, unique_key, unique_until, body, reason, failure, staged,
        order_key)
ON CONFLICT DO NOTHING
RETURNING id
"""
