"""The statements about limits, lines and tenants. The remarks in message_statements.py apply here too."""

from __future__ import annotations

# Only one step at a time changes lines and budgets of a namespace. The time is read when the lock is held:
# an earlier one would give tokens back. A step that has it does not wait long for other locks: a transaction
# of a user may hold a unique key for minutes. It is then rolled back and run again. namespace, offset → now
LOCK = """
SELECT headrace.now_us($2), set_config('lock_timeout', '100', true)
FROM pg_advisory_xact_lock(hashtextextended('headrace.lines ' || $1::text, 0))
"""

#: Takes this lock in the statement that begins a transaction. {}: the namespace, as a literal.
LOCK_FROM_THE_BEGINNING = ", pg_advisory_xact_lock(hashtextextended('headrace.lines ' || {}, 0))"
SHORT_WAITS = ", set_config('lock_timeout', '100', true)"

# --- constraints and lines -------------------------------------------------------------------------------

NOTE_LINES = "UPDATE headrace.streams SET held_lines = true WHERE stream = $1 AND NOT held_lines"

# LIMIT keeps the planner from a join that reads all constraints of the stream for each of these.
# stream; contents, tenants → content, constraints
NUMBER_CONSTRAINTS = """
WITH wanted AS MATERIALIZED (
    SELECT given.content, given.tenant, known.constraints
    FROM unnest($2::text[], $3::text[]) AS given (content, tenant)
        LEFT JOIN LATERAL (
            SELECT constraints FROM headrace.constraints AS stored
            WHERE stored.stream = $1 AND stored.content = given.content LIMIT 1) AS known ON true
), added AS (
    INSERT INTO headrace.constraints (stream, content, tenant)
    SELECT $1, content, tenant FROM wanted WHERE constraints IS NULL
    RETURNING content, constraints)
SELECT content, constraints FROM wanted WHERE constraints IS NOT NULL
UNION ALL SELECT content, constraints FROM added
"""

# constraints → constraints, content
READ_CONSTRAINTS = """
SELECT constraints, content FROM headrace.constraints WHERE constraints = ANY ($1::bigint[])
"""

# constraints that no message has any more
DROP_CONSTRAINTS = """
DELETE FROM headrace.constraints AS limited WHERE constraints = ANY ($1::bigint[])
    AND NOT EXISTS (
        SELECT FROM headrace.messages AS message WHERE message.constraints = limited.constraints)
"""

# Brings lines up to date after messages have joined and left them. constraints, places, differences
# → stream, place, tenant, content of each line that is gone (NULL: it is new)
RECOUNT = """
WITH touched AS MATERIALIZED (
    SELECT limited.constraints, moved.place, moved.difference, limited.stream, limited.tenant,
        limited.content, line.line, front.at_us, front.seq
    FROM unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS moved (constraints, place, difference)
        JOIN headrace.constraints AS limited ON limited.constraints = moved.constraints
        LEFT JOIN headrace.lines AS line
            ON line.constraints = moved.constraints AND line.place = moved.place
        LEFT JOIN LATERAL (
            SELECT at_us, seq FROM headrace.messages AS queued
            WHERE queued.constraints = moved.constraints AND queued.place = moved.place
            ORDER BY at_us, seq LIMIT 1) AS front ON true
), gone AS (
    DELETE FROM headrace.lines AS line USING touched WHERE line.line = touched.line AND touched.seq IS NULL
), changed AS (
    UPDATE headrace.lines AS line
    SET waiting = waiting + difference, first_us = touched.at_us, first_seq = touched.seq
    FROM touched WHERE line.line = touched.line AND touched.seq IS NOT NULL
), added AS (
    INSERT INTO headrace.lines (constraints, place, stream, tenant, waiting, first_us, first_seq)
    SELECT constraints, place, stream, tenant, difference, at_us, seq FROM touched
    WHERE line IS NULL AND seq IS NOT NULL)
SELECT stream, place, tenant, CASE WHEN seq IS NULL THEN content END FROM touched
WHERE (line IS NULL) <> (seq IS NULL)
"""

# The first lines of a stream that a budget blocks. budgets, streams, how many → stream, place, tenant
OPEN_FIRST = """
WITH first AS MATERIALIZED (
    SELECT blocked.line
    FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) AS wanted (budget, stream, count), LATERAL (
        SELECT line FROM headrace.lines AS line
        WHERE line.blocked_by = wanted.budget AND line.stream = wanted.stream
        ORDER BY place < -32, place, first_us, first_seq LIMIT wanted.count) AS blocked)
UPDATE headrace.lines AS line SET blocked_by = NULL FROM first WHERE line.line = first.line
RETURNING line.stream, line.place, line.tenant
"""

# Every line that waits for a limit. namespace, name → stream, place, tenant
OPEN_ALL = """
UPDATE headrace.lines SET blocked_by = NULL WHERE blocked_by IN (
    SELECT budget FROM headrace.budgets WHERE namespace = $1 AND name = $2)
RETURNING stream, place, tenant
"""

STOP_TIMERS = "UPDATE headrace.budgets SET timer_us = 0 WHERE namespace = $1 AND name = $2 AND timer_us > 0"

# The streams of the lines that budgets block. It reads one row for each stream. budgets → budget, stream
BLOCKED_STREAMS = """
SELECT wanted.budget, found.stream FROM unnest($1::bigint[]) AS wanted (budget), LATERAL (
    WITH RECURSIVE found (stream) AS (
        SELECT (SELECT stream FROM headrace.lines WHERE blocked_by = wanted.budget ORDER BY stream LIMIT 1)
        UNION ALL
        SELECT (SELECT line.stream FROM headrace.lines AS line
            WHERE line.blocked_by = wanted.budget AND line.stream > found.stream
            ORDER BY line.stream LIMIT 1)
        FROM found WHERE found.stream IS NOT NULL)
    SELECT stream FROM found WHERE stream IS NOT NULL) AS found
"""

# budget, stream
IS_BLOCKING = "SELECT EXISTS (SELECT FROM headrace.lines WHERE blocked_by = $1 AND stream = $2)"

READ_STREAMS = "SELECT stream, kind, name FROM headrace.streams WHERE stream = ANY ($1::integer[])"

# Tenants that have an open line again get the last turn. streams, places, tenants
ADD_TENANTS = """
WITH added AS MATERIALIZED (
    SELECT * FROM unnest($1::integer[], $2::smallint[], $3::text[]) WITH ORDINALITY
        AS each (stream, place, tenant, position)
), places AS MATERIALIZED (
    SELECT stream, place, coalesce((
        SELECT turn FROM headrace.tenants AS other
        WHERE other.stream = each.stream AND other.place = each.place ORDER BY turn DESC LIMIT 1), 0) AS last
    FROM (SELECT DISTINCT stream, place FROM added) AS each)
INSERT INTO headrace.tenants (stream, place, tenant, turn)
SELECT added.stream, added.place, tenant, position + last
FROM places, added WHERE added.stream = places.stream AND added.place = places.place
ON CONFLICT DO NOTHING
"""

# Tenants that have no open line any more. streams, places, tenants
DROP_TENANTS = """
DELETE FROM headrace.tenants AS tenants
USING unnest($1::integer[], $2::smallint[], $3::text[]) AS gone (stream, place, tenant)
WHERE tenants.stream = gone.stream AND tenants.place = gone.place AND tenants.tenant = gone.tenant
    AND NOT EXISTS (
        SELECT FROM headrace.lines AS line
        WHERE line.stream = gone.stream AND line.place = gone.place AND line.tenant = gone.tenant
            AND blocked_by IS NULL)
"""

# --- claiming --------------------------------------------------------------------------------------------

# namespace, kinds, names, consumer, how many, lanes, token, offset, bytes
CLAIM_LINE = """
SELECT * FROM headrace.claim_line($1, $2::text[], $3::text[], $4, $5, $6::smallint[], $7, $8, $9)
ORDER BY rank
"""

# namespace, kinds, names, lanes, whether child work is first, whether suspects and child work are wanted, how
# many tenants, how many messages → the streams, the first open lines
OPEN_CLAIM = """
SELECT streams, loaded FROM headrace.open_claim(
    $1, $2::text[], $3::text[], $4::smallint[], $5, $6, $7, $8, $9)
"""

# Messages without constraints, in the order of the places and streams. places, how many of each, streams, how
# many in all → seq, size, place, stream, tid
LOCK_READY = """
SELECT ready.seq, ready.size, ready.place, ready.stream, ready.tid
FROM unnest($1::smallint[], $2::bigint[]) AS wanted (place, most), unnest($3::integer[]) AS each (number),
    LATERAL (
        SELECT seq, coalesce(octet_length(body), 0) AS size, message.place, message.stream,
            message.ctid::text AS tid
        FROM headrace.messages AS message
        WHERE message.stream = each.number AND message.place = wanted.place
        ORDER BY at_us, seq LIMIT wanted.most FOR UPDATE SKIP LOCKED) AS ready
LIMIT $4
"""

# namespace, stream, place, how many tenants, how many messages
LOAD = "SELECT headrace.load_lines($1, $2::integer, $3::smallint, $4, $5)"

# constraints, place, how many → seq, size, time, tid
FIRST_MESSAGES = """
SELECT seq, coalesce(octet_length(body), 0), at_us, ctid::text FROM headrace.messages
WHERE constraints = $1 AND place = $2 ORDER BY at_us, seq LIMIT $3
"""

# now, token, consumer; tids, seqs of messages; streams, how many of each; lines, how many were taken, time
# and seq of the first one; blocked lines, their budgets; tids of tenants, their turns; tids of tenants that
# may have no open line; namespace; budgets as in WRITE_BUDGETS
LEASE = """
SELECT * FROM headrace.lease_lined(
    $1, $2, $3, $4::text[]::tid[], $5::bigint[], $6::integer[], $7::bigint[],
    $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[],
    $14::text[]::tid[], $15::bigint[], $16::text[]::tid[],
    $17, $18::bigint[], $19::text[], $20::text[], $21::bigint[], $22::bigint[], $23::bigint[])
"""

# --- budgets ---------------------------------------------------------------------------------------------

# namespace; names, keys → budget (0: it has no row), name, key, running, next_us, timer_us, figures, whether
# it blocks a line
LOAD_BUDGETS = """
SELECT coalesce(budget, 0), given.name, given.key, coalesce(running, 0), coalesce(next_us, 0),
    coalesce(timer_us, 0), coalesce(override, declared),
    EXISTS (SELECT FROM headrace.lines WHERE blocked_by = budget)
FROM unnest($2::text[], $3::text[]) AS given (name, key)
    LEFT JOIN LATERAL (
        SELECT * FROM headrace.budgets AS stored
        WHERE stored.namespace = $1 AND stored.name = given.name AND stored.key = given.key LIMIT 1
    ) AS known ON true
    LEFT JOIN headrace.limits AS limits ON limits.namespace = $1 AND limits.name = given.name
"""

# namespace, name, key → budget
ADD_BUDGET = "INSERT INTO headrace.budgets (namespace, name, key) VALUES ($1, $2, $3) RETURNING budget"

# namespace; budgets, names, keys, running, next_us, timer_us
WRITE_BUDGETS = """
SELECT headrace.write_budgets(
    $1, $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
"""

_IDLE = """
SELECT budget FROM headrace.budgets AS idle WHERE namespace = $1 AND running = 0 AND next_us <= $2
    AND NOT EXISTS (SELECT FROM headrace.lines WHERE blocked_by = idle.budget)
"""

# namespace, now
IS_A_BUDGET_IDLE = f"SELECT EXISTS ({_IDLE})"  # nosec B608 # constants only

# namespace, now, limit
PRUNE_BUDGETS = f"DELETE FROM headrace.budgets WHERE budget IN ({_IDLE} LIMIT $3)"  # nosec B608 # constants only

# namespace → name, key, timer_us, next_us, figures
FIRST_TIMER = """
SELECT name, key, timer_us, next_us,
    (SELECT coalesce(override, declared) FROM headrace.limits AS limits
        WHERE limits.namespace = budgets.namespace AND limits.name = budgets.name)
FROM headrace.budgets AS budgets WHERE namespace = $1 AND timer_us > 0 ORDER BY timer_us LIMIT 1
"""

# --- figures ---------------------------------------------------------------------------------------------

# namespace, names → name, declared
READ_LIMITS = "SELECT name, declared FROM headrace.limits WHERE namespace = $1 AND name = ANY ($2::text[])"

DECLARE_LIMIT = """
INSERT INTO headrace.limits (namespace, name, declared) VALUES ($1, $2, $3)
ON CONFLICT (namespace, name) DO UPDATE SET declared = excluded.declared
"""

OVERRIDE_LIMIT = "UPDATE headrace.limits SET override = $3 WHERE namespace = $1 AND name = $2"

# Lists limits without counting: namespace → name, declared, override, and zeros
LIST_FIGURES = (
    "SELECT name, declared, override, 0, 0, 0 FROM headrace.limits WHERE namespace = $1 ORDER BY name"
)

# namespace → name, declared, override, how many run, how many wait, how many keys are in use
LIST_LIMITS = """
SELECT name, declared, override, coalesce(running, 0), coalesce(waiting, 0), coalesce(keys, 0)
FROM headrace.limits AS limits LEFT JOIN (
    SELECT name, sum(running)::bigint AS running, sum(waiting)::bigint AS waiting,
        count(DISTINCT key) FILTER (WHERE key <> '' AND (running > 0 OR waiting > 0)) AS keys
    FROM (
        SELECT name, key, running, 0 AS waiting FROM headrace.budgets WHERE namespace = $1
        UNION ALL
        SELECT pair ->> 0, pair ->> 1, 0, waiting
        FROM headrace.streams AS streams JOIN headrace.lines AS line ON line.stream = streams.stream
            JOIN headrace.constraints AS limited ON limited.constraints = line.constraints,
            json_array_elements(content::json -> 0) AS pair
        WHERE namespace = $1 AND held_lines
    ) AS used GROUP BY name
) AS counted USING (name)
WHERE namespace = $1 ORDER BY name
"""

# --- ordered jobs ----------------------------------------------------------------------------------------

# stream, keys → key, id
FIND_HOLDERS = """
SELECT key, id FROM headrace.unique_keys WHERE stream = $1 AND key = ANY ($2::text[])
"""

# The first parked job of each free key. streams, keys → stream, key, id, constraints, its place after that
FIND_NEXT_JOBS = """
SELECT freed.stream, freed.key, parked.id, parked.constraints, parked.place
FROM unnest($1::integer[], $2::text[]) AS freed (stream, key), LATERAL (
    SELECT id, constraints, lane - 32 - CASE WHEN child THEN 8 ELSE 0 END AS place
    FROM headrace.messages AS message
    WHERE message.stream = freed.stream AND message.order_key = freed.key AND message.place = 1
    ORDER BY at_us, seq LIMIT 1) AS parked
WHERE NOT EXISTS (
    SELECT FROM headrace.unique_keys AS keys WHERE keys.stream = freed.stream AND keys.key = freed.key)
"""

# streams, ids, now
UNPARK_JOBS = """
UPDATE headrace.messages AS message SET place = lane - 32 - CASE WHEN child THEN 8 ELSE 0 END, at_us = $3
FROM unnest($1::integer[], $2::text[]) AS next (stream, id)
WHERE message.stream + 0 = next.stream AND message.id = next.id
"""

# --- jobs that are queued after they waited for a time ---------------------------------------------------

# stream, ids → id, staged constraints
READ_STAGED = """
SELECT id, staged FROM headrace.messages
WHERE stream + 0 = $1 AND id = ANY ($2::text[]) AND staged IS NOT NULL
"""

# stream; ids, constraints
NUMBER_STAGED = """
UPDATE headrace.messages AS message SET constraints = numbered.constraints, staged = NULL
FROM unnest($2::text[], $3::bigint[]) AS numbered (id, constraints)
WHERE message.stream + 0 = $1 AND message.id = numbered.id
"""

# stream, ids in the order of queueing → id, constraints, place, order_key
READ_QUEUED = """
SELECT message.id, constraints, place, order_key
FROM unnest($2::text[]) WITH ORDINALITY AS wanted (id, position)
    JOIN headrace.messages AS message ON message.stream + 0 = $1 AND message.id = wanted.id
WHERE constraints IS NOT NULL ORDER BY position
"""

# --- streams ---------------------------------------------------------------------------------------------

# What a stream without messages may leave behind.
FORGET_LINES = (
    "DELETE FROM headrace.lines WHERE stream = $1",
    "DELETE FROM headrace.tenants WHERE stream = $1",
    "DELETE FROM headrace.constraints WHERE stream = $1",
)
