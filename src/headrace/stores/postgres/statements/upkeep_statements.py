"""The statements about pruning, workers and traffic."""

from __future__ import annotations

# --- pruning ---------------------------------------------------------------------------------------------

# Each finds its rows in a materialized part: a planner that ran that part more than once would lock, and
# delete, more rows than the limit.

# namespace, now, limit
PRUNE_END_RECORDS = """
WITH past AS MATERIALIZED (
    SELECT ended.stream, ended.id FROM headrace.streams AS streams,
        unnest('{11,12,13}'::smallint[]) AS wanted, LATERAL (
        SELECT stream, id FROM headrace.messages
        WHERE stream = streams.stream AND place = wanted AND at_us <= $2
        ORDER BY at_us LIMIT $3 FOR UPDATE SKIP LOCKED) AS ended
    WHERE namespace = $1 LIMIT $3)
DELETE FROM headrace.messages AS message USING past
WHERE message.stream + 0 = past.stream AND message.id = past.id
"""

PRUNE_KEYS = """
WITH past AS MATERIALIZED (
    SELECT stream, key FROM headrace.unique_keys
    WHERE expires_us <= $2 AND stream IN (SELECT stream FROM headrace.streams WHERE namespace = $1)
    LIMIT $3 FOR UPDATE SKIP LOCKED)
DELETE FROM headrace.unique_keys AS keys USING past WHERE keys.stream = past.stream AND keys.key = past.key
"""

PRUNE_PRODUCERS = """
WITH past AS MATERIALIZED (
    SELECT old.stream, old.producer FROM headrace.streams AS streams, LATERAL (
        SELECT stream, producer FROM headrace.producers
        WHERE stream = streams.stream AND at_us <= $2 LIMIT $3 FOR UPDATE SKIP LOCKED) AS old
    WHERE namespace = $1 LIMIT $3)
DELETE FROM headrace.producers AS producers USING past
WHERE producers.stream = past.stream AND producers.producer = past.producer
"""

PRUNE_WORKERS = """
WITH past AS MATERIALIZED (
    SELECT namespace, consumer FROM headrace.workers WHERE namespace = $1 AND seen_us <= $2
    LIMIT $3 FOR UPDATE SKIP LOCKED)
DELETE FROM headrace.workers AS workers USING past
WHERE workers.namespace = past.namespace AND workers.consumer = past.consumer
"""

# Deletes the progress of messages that are over, or were claimed again. namespace, limit
PRUNE_PROGRESS = """
WITH past AS MATERIALIZED (
    SELECT progress.stream, progress.id FROM headrace.streams AS streams
        JOIN headrace.progress AS progress ON progress.stream = streams.stream
    WHERE namespace = $1 AND NOT EXISTS (
        SELECT FROM headrace.messages AS message
        WHERE message.stream + 0 = progress.stream AND message.id = progress.id
            AND message.claim = progress.claim AND place + 0 = 7)
    LIMIT $2 FOR UPDATE OF progress SKIP LOCKED)
DELETE FROM headrace.progress AS progress USING past
WHERE progress.stream = past.stream AND progress.id = past.id
"""

# Each connection of users has counts of its own (headrace.count_within): adds them up. namespace, limit
ADD_UP_COUNTS = """
WITH past AS MATERIALIZED (
    SELECT own.stream, own.slot FROM headrace.streams AS streams, LATERAL (
        SELECT stream, slot FROM headrace.counts
        WHERE stream = streams.stream AND slot < 0 ORDER BY slot LIMIT $2 FOR UPDATE SKIP LOCKED) AS own
    WHERE namespace = $1 LIMIT $2
), taken AS (
    DELETE FROM headrace.counts AS counts USING past
    WHERE counts.stream = past.stream AND counts.slot = past.slot
    RETURNING counts.*
), added AS (
    SELECT stream, sum(queued)::bigint AS queued, sum(running)::bigint AS running,
        sum(scheduled)::bigint AS scheduled, sum(retrying)::bigint AS retrying, sum(dead)::bigint AS dead,
        sum(parked)::bigint AS parked
    FROM taken GROUP BY stream)
SELECT headrace.add_counts(array_agg(stream), array_agg(queued), array_agg(running), array_agg(scheduled),
    array_agg(retrying), array_agg(dead), array_agg(parked))
FROM added HAVING count(*) > 0
"""

# namespace, now, producers until, workers until
IS_SOMETHING_PAST = """
SELECT EXISTS (
    SELECT FROM headrace.streams AS streams, unnest('{11,12,13}'::smallint[]) AS wanted, LATERAL (
        SELECT FROM headrace.messages
        WHERE stream = streams.stream AND place = wanted AND at_us <= $2 LIMIT 1) AS past
    WHERE namespace = $1
) OR EXISTS (
    SELECT FROM headrace.unique_keys
    WHERE expires_us <= $2 AND stream IN (SELECT stream FROM headrace.streams WHERE namespace = $1)
) OR EXISTS (
    SELECT FROM headrace.streams AS streams
        JOIN headrace.producers AS producers ON producers.stream = streams.stream
    WHERE namespace = $1 AND at_us <= $3
) OR EXISTS (
    SELECT FROM headrace.history
    WHERE until_us <= $2 AND stream IN (SELECT stream FROM headrace.streams WHERE namespace = $1)
) OR EXISTS (
    SELECT FROM headrace.counts
    WHERE slot < 0 AND stream IN (SELECT stream FROM headrace.streams WHERE namespace = $1)
) OR EXISTS (
    SELECT FROM headrace.workers WHERE namespace = $1 AND seen_us <= $4
) OR EXISTS (
    SELECT FROM headrace.streams AS streams
        JOIN headrace.progress AS progress ON progress.stream = streams.stream
    WHERE namespace = $1 AND NOT EXISTS (
        SELECT FROM headrace.messages AS message
        WHERE message.stream + 0 = progress.stream AND message.id = progress.id
            AND message.claim = progress.claim AND place + 0 = 7)
) OR EXISTS (
    SELECT FROM headrace.budgets AS idle WHERE namespace = $1 AND running = 0 AND next_us <= $2
        AND NOT EXISTS (SELECT FROM headrace.lines WHERE blocked_by = idle.budget)
)
"""

# --- workers ---------------------------------------------------------------------------------------------

# namespace, consumer, offset, info, kinds, names → kind, name, lease of each named stream; kind, name, NULL
# of each paused stream
BEAT = """
WITH beat AS (
    INSERT INTO headrace.workers (namespace, consumer, since_us, seen_us, info)
    SELECT $1, $2, now_us, now_us, $4 FROM headrace.set_durability('off'), headrace.now_us($3) AS now_us
    ON CONFLICT (namespace, consumer) DO UPDATE SET seen_us = excluded.seen_us, info = excluded.info)
SELECT streams.kind, streams.name, lease_us
FROM unnest($5::text[], $6::text[]) AS wanted (kind, name)
    JOIN headrace.streams AS streams
        ON namespace = $1 AND streams.kind = wanted.kind AND streams.name = wanted.name
WHERE lease_us IS NOT NULL
UNION ALL
SELECT kind, name, NULL FROM headrace.streams WHERE namespace = $1 AND paused
UNION ALL
SELECT '', target, NULL FROM headrace.seals WHERE namespace = $1 AND NOT draining
UNION ALL
SELECT 'limit', coalesce(override, declared), NULL FROM headrace.limits
WHERE namespace = $1 AND name >= 'paused:' AND name < 'paused;'
"""

FORGET_WORKER = "DELETE FROM headrace.workers WHERE namespace = $1 AND consumer = $2"

# namespace, since when, offset of the clock
LIST_WORKERS = """
SELECT info FROM headrace.workers WHERE namespace = $1 AND seen_us > headrace.now_us($3) - $2
ORDER BY since_us, consumer
"""

# --- traffic ---------------------------------------------------------------------------------------------

# namespace, minute; kinds, names, done, failed, dead
ADD_TRAFFIC = """
INSERT INTO headrace.traffic AS traffic (namespace, minute, kind, name, done, failed, dead)
SELECT $1, $2, kind, name, sum(done), sum(failed), sum(dead)
FROM unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
    AS added (kind, name, done, failed, dead)
GROUP BY kind, name ORDER BY kind, name
ON CONFLICT (namespace, minute, kind, name) DO UPDATE SET
    done = traffic.done + excluded.done, failed = traffic.failed + excluded.failed,
    dead = traffic.dead + excluded.dead
"""

FORGET_TRAFFIC = "DELETE FROM headrace.traffic WHERE namespace = $1 AND minute <= $2"

READ_TRAFFIC = """
SELECT kind, name, minute, done, failed, dead FROM headrace.traffic WHERE namespace = $1 AND minute > $2
ORDER BY minute
"""
