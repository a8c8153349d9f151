"""The statements about limits, lines and tenants. The remarks in message_statements.py apply here too."""

from __future__ import annotations

# --- constraints and lines -------------------------------------------------------------------------------

NOTE_LINES = "UPDATE headrace_streams SET held_lines = 1 WHERE stream = ?"

# [content, ...]
ADD_CONSTRAINTS = """
INSERT INTO headrace_constraints (stream, content) SELECT ?1, value FROM json_each(?2) WHERE true
ON CONFLICT DO NOTHING
"""

# [content, ...] → [[content, constraints], ...]
FIND_CONSTRAINTS = """
SELECT json_group_array(json_array(content, constraints)) FROM headrace_constraints
WHERE stream = ?1 AND content IN (SELECT value FROM json_each(?2))
"""

# [constraints, ...] → [[constraints, content], ...]
READ_CONSTRAINTS = """
SELECT json_group_array(json_array(constraints, content)) FROM headrace_constraints
WHERE constraints IN (SELECT value FROM json_each(?))
"""

# [constraints, ...] that no message has any more
DROP_CONSTRAINTS = """
DELETE FROM headrace_constraints WHERE constraints IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (
        SELECT 1 FROM headrace_messages AS message
        WHERE message.constraints = headrace_constraints.constraints)
"""

# [[constraints, place], ...] → [[constraints, place, stream, its kind and name, content, line, waiting,
# blocked_by, time and seq of the first message], ...]
READ_LINES = """
SELECT json_group_array(json_array(
    limited.constraints, wanted.value ->> 1, limited.stream, kind, name, content,
    line.line, line.waiting, line.blocked_by, front.at_us, front.seq))
FROM json_each(?) AS wanted CROSS JOIN headrace_constraints AS limited CROSS JOIN headrace_streams AS streams
    LEFT JOIN headrace_lines AS line
        ON line.constraints = limited.constraints AND line.place = wanted.value ->> 1
    LEFT JOIN headrace_messages AS front ON front.seq = (
        SELECT seq FROM headrace_messages AS queued
        WHERE queued.constraints = limited.constraints AND queued.place = wanted.value ->> 1
        ORDER BY queued.at_us, queued.seq LIMIT 1)
WHERE limited.constraints = wanted.value ->> 0 AND streams.stream = limited.stream
"""

# [[constraints, place, stream, tenant, waiting, time and seq of the first message], ...]
ADD_LINES = """
INSERT INTO headrace_lines (constraints, place, stream, tenant, waiting, first_us, first_seq)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
FROM json_each(?)
"""

# [[line, difference, time and seq of the first message], ...]
CHANGE_LINES = """
UPDATE headrace_lines SET
    waiting = waiting + (change.value ->> 1), first_us = change.value ->> 2, first_seq = change.value ->> 3
FROM json_each(?) AS change WHERE line = change.value ->> 0
"""

# [line, ...]
DROP_LINES = "DELETE FROM headrace_lines WHERE line IN (SELECT value FROM json_each(?))"

BLOCK_LINE = "UPDATE headrace_lines SET blocked_by = ?2 WHERE line = ?1"

# The first line of a stream that a budget blocks
# → line, stream, place, tenant (bytes: in a damaged row it is no valid text)
OPEN_FIRST = """
UPDATE headrace_lines SET blocked_by = NULL WHERE line = (
    SELECT line FROM headrace_lines WHERE blocked_by = ?1 AND stream = ?2
    ORDER BY place < -32, place, first_us, first_seq LIMIT 1)
RETURNING line, stream, place, CAST(tenant AS BLOB)
"""

# Every line that waits for a limit → line, stream, place, tenant (as of OPEN_FIRST)
OPEN_ALL = """
UPDATE headrace_lines SET blocked_by = NULL WHERE blocked_by IN (
    SELECT budget FROM headrace_budgets WHERE namespace = ?1 AND name = ?2)
RETURNING line, stream, place, CAST(tenant AS BLOB)
"""

NAME_TENANT = "UPDATE headrace_lines SET tenant = ?2 WHERE line = ?1"

STOP_TIMER = "UPDATE headrace_budgets SET timer_us = 0 WHERE budget = ?"

STOP_TIMERS = "UPDATE headrace_budgets SET timer_us = 0 WHERE namespace = ?1 AND name = ?2 AND timer_us > 0"

IS_BLOCKING = "SELECT EXISTS (SELECT 1 FROM headrace_lines WHERE blocked_by = ?1 AND stream = ?2)"

# The streams of the lines that a budget blocks. It reads one row for each stream.
BLOCKED_STREAMS = """
WITH RECURSIVE found (stream) AS (
    SELECT (SELECT min(stream) FROM headrace_lines WHERE blocked_by = ?1)
    UNION ALL
    SELECT (SELECT min(line.stream) FROM headrace_lines AS line
        WHERE line.blocked_by = ?1 AND line.stream > found.stream)
    FROM found WHERE found.stream IS NOT NULL)
SELECT stream FROM found WHERE stream IS NOT NULL
"""

READ_STREAM = "SELECT kind, name FROM headrace_streams WHERE stream = ?"

# [[stream, place, tenant], ...]: tenants that have an open line again get the last turn
ADD_TENANTS = """
INSERT INTO headrace_tenants (stream, place, tenant, turn)
SELECT value ->> 0, value ->> 1, value ->> 2, added.key + 1 + coalesce((
    SELECT max(turn) FROM headrace_tenants AS other
    WHERE other.stream = value ->> 0 AND other.place = value ->> 1), 0)
FROM json_each(?) AS added WHERE true ON CONFLICT DO NOTHING
"""

# [[stream, place, tenant], ...] that have no open line any more
DROP_TENANTS_WITHOUT_LINES = """
DELETE FROM headrace_tenants WHERE (stream, place, tenant) IN (
        SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?))
    AND NOT EXISTS (
        SELECT 1 FROM headrace_lines AS line
        WHERE line.stream = headrace_tenants.stream AND line.place = headrace_tenants.place
            AND line.tenant = headrace_tenants.tenant AND blocked_by IS NULL)
"""

# --- claiming --------------------------------------------------------------------------------------------

# The stream, place, how many → [[tenant, turn], ...]
FIRST_TENANTS = """
SELECT json_group_array(json_array(tenant, turn)) FROM (
    SELECT tenant, turn FROM headrace_tenants WHERE stream = ?1 AND place = ?2 ORDER BY turn LIMIT ?3)
"""

LAST_TURN = "SELECT max(turn) FROM headrace_tenants WHERE stream = ? AND place = ?"

# The stream, place, [tenant, ...], how many of each
# → [[tenant, line, constraints, content, waiting, time and seq of the first message], ...]
OPEN_LINES = """
SELECT json_group_array(json_array(
    line.tenant, line.line, line.constraints, content, waiting, first_us, first_seq))
FROM json_each(?3) AS wanted CROSS JOIN headrace_lines AS line CROSS JOIN headrace_constraints AS limited
WHERE line.line IN (
        SELECT line FROM headrace_lines AS open
        WHERE open.stream = ?1 AND open.place = ?2 AND open.tenant = wanted.value AND open.blocked_by IS NULL
        ORDER BY first_us, first_seq LIMIT ?4)
    AND limited.constraints = line.constraints
"""

# [[tenant, turn], ...]
WRITE_TURNS = """
INSERT INTO headrace_tenants (stream, place, tenant, turn)
SELECT ?1, ?2, value ->> 0, value ->> 1 FROM json_each(?3) WHERE true
ON CONFLICT DO UPDATE SET turn = excluded.turn
"""

# [tenant, ...] that have no open line. A line whose constraints are gone does not count: no claim finds it,
# so its tenant would have a turn for ever.
DROP_TENANTS = """
DELETE FROM headrace_tenants WHERE stream = ?1 AND place = ?2
    AND tenant IN (SELECT value FROM json_each(?3))
    AND NOT EXISTS (
        SELECT 1 FROM headrace_lines AS line JOIN headrace_constraints USING (constraints)
        WHERE line.stream = ?1 AND line.place = ?2 AND line.tenant = headrace_tenants.tenant
            AND blocked_by IS NULL)
"""

# [constraints, ...], the place, how many of each → [[constraints, seq, time, length of the body], ...]
FIRST_MESSAGES = """
SELECT json_group_array(json_array(constraints, seq, at_us, size)) FROM (
    SELECT message.constraints, message.seq, at_us, length(body) AS size
    FROM json_each(?1) AS wanted CROSS JOIN headrace_messages AS message
    WHERE message.seq IN (
        SELECT seq FROM headrace_messages AS queued
        WHERE queued.constraints = wanted.value AND queued.place = ?2 ORDER BY queued.at_us, queued.seq
        LIMIT ?3)
    ORDER BY message.at_us, message.seq)
"""

# --- budgets ---------------------------------------------------------------------------------------------

# Behind the last number that the table's own numbering takes there is no other: a damaged row may have it.
_LAST_BUDGET = "(SELECT coalesce(max(max(budget), 0), 0) FROM headrace_budgets WHERE budget < 1 << 60)"

# [[name, key, running, next_us, timer_us], ...]
ADD_BUDGETS = f"""
INSERT INTO headrace_budgets (budget, namespace, name, key, running, next_us, timer_us)
SELECT {_LAST_BUDGET} + 1 + added.key, ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
FROM json_each(?2) AS added
"""  # nosec B608 # constants only

# A row without a number that can be used gets one.
ADD_BUDGET = f"""
INSERT INTO headrace_budgets (budget, namespace, name, key) VALUES ({_LAST_BUDGET} + 1, ?, ?, ?)
ON CONFLICT DO UPDATE SET budget = excluded.budget RETURNING budget
"""  # nosec B608 # constants only

# [[name, key], ...] → [[budget, name, key, running, next_us, timer_us, figures, whether it blocks a line],
# ...]; the number of a budget that has no row is NULL
READ_BUDGETS = """
SELECT json_group_array(json_array(
    budget, wanted.value ->> 0, wanted.value ->> 1, coalesce(running, 0), coalesce(next_us, 0),
    coalesce(timer_us, 0), coalesce(override, declared),
    budget IS NOT NULL AND EXISTS (SELECT 1 FROM headrace_lines WHERE blocked_by = budget)))
FROM json_each(?2) AS wanted
    LEFT JOIN headrace_budgets AS budgets
        ON budgets.namespace = ?1 AND budgets.name = wanted.value ->> 0 AND budgets.key = wanted.value ->> 1
    LEFT JOIN headrace_limits AS limits ON limits.namespace = ?1 AND limits.name = wanted.value ->> 0
"""

# [[budget, running, next_us, timer_us], ...]
WRITE_BUDGETS = """
UPDATE headrace_budgets SET
    running = change.value ->> 1, next_us = change.value ->> 2, timer_us = change.value ->> 3
FROM json_each(?) AS change WHERE budget = change.value ->> 0
"""

# [budget, ...] that have nothing to keep
DROP_BUDGETS = """
DELETE FROM headrace_budgets WHERE budget IN (SELECT value FROM json_each(?1))
    AND NOT EXISTS (SELECT 1 FROM headrace_lines WHERE blocked_by = headrace_budgets.budget)
"""

FIRST_TIMER = """
SELECT budget, name, key, timer_us, next_us,
    (SELECT coalesce(override, declared) FROM headrace_limits AS limits
        WHERE limits.namespace = budgets.namespace AND limits.name = budgets.name)
FROM headrace_budgets AS budgets WHERE namespace = ? AND timer_us > 0 ORDER BY timer_us LIMIT 1
"""

# --- figures ---------------------------------------------------------------------------------------------

READ_LIMIT = "SELECT declared, override FROM headrace_limits WHERE namespace = ? AND name = ?"

DECLARE_LIMIT = """
INSERT INTO headrace_limits (namespace, name, declared) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET declared = excluded.declared
"""

OVERRIDE_LIMIT = "UPDATE headrace_limits SET override = ?3 WHERE namespace = ?1 AND name = ?2"

LIST_LIMITS = "SELECT name, declared, override FROM headrace_limits WHERE namespace = ? ORDER BY name"

# The limits of paused tasks.
LIST_PAUSES = """
SELECT coalesce(override, declared) FROM headrace_limits
WHERE namespace = ? AND name >= 'paused:' AND name < 'paused;'
"""

# → name, how many run, how many wait, how many keys are in use
COUNT_LIMITED = """
SELECT name, sum(min(running, 1 << 40)), sum(min(waiting, 1 << 40)), count(DISTINCT nullif(key, '')) FROM (
    SELECT name, key, running, 0 AS waiting FROM headrace_budgets WHERE namespace = ?1 AND running > 0
    UNION ALL
    SELECT pair.value ->> 0, pair.value ->> 1, 0, waiting
    FROM headrace_lines AS line CROSS JOIN headrace_streams AS streams
        CROSS JOIN headrace_constraints AS limited
        CROSS JOIN json_each(iif(json_valid(content), content, '[]'), '$[0]') AS pair
    WHERE streams.stream = line.stream AND namespace = ?1 AND limited.constraints = line.constraints
        AND pair.type = 'array')
GROUP BY name
"""

# --- ordered jobs ----------------------------------------------------------------------------------------

# [key, ...] → [[key, id], ...]
FIND_HOLDERS = """
SELECT json_group_array(json_array(key, id)) FROM headrace_unique_keys
WHERE stream = ?1 AND key IN (SELECT value FROM json_each(?2))
"""

# [[stream, key], ...] → [[seq, stream, key, id, constraints, its place after that], ...]: the first parked
# job of each free key
FIND_NEXT_JOBS = """
SELECT json_group_array(json_array(
    seq, message.stream, order_key, message.id, constraints,
    lane - iif(child, 8, 0) - iif(constraints IS NULL, 0, 32)))
FROM json_each(?) AS freed CROSS JOIN headrace_messages AS message
WHERE seq = (
        SELECT seq FROM headrace_messages AS parked
        WHERE parked.stream = freed.value ->> 0 AND parked.order_key = freed.value ->> 1 AND place = 1
        ORDER BY parked.at_us, seq LIMIT 1)
    AND NOT EXISTS (
        SELECT 1 FROM headrace_unique_keys AS keys
        WHERE keys.stream = freed.value ->> 0 AND keys.key = freed.value ->> 1)
"""

# [id, ...]; times one microsecond apart, so that jobs keep the order of the list
PARK_IDS = """
UPDATE headrace_messages SET place = 1, at_us = ?3 + parked.key
FROM json_each(?2) AS parked WHERE stream = ?1 AND headrace_messages.id = parked.value
"""

# [seq, ...] in the order of queueing → [[seq, constraints, place, order_key, id], ...]
READ_QUEUED = """
SELECT json_group_array(json_array(seq, constraints, place, order_key, message.id))
FROM json_each(?) AS wanted CROSS JOIN headrace_messages AS message WHERE seq = wanted.value
"""

# --- streams ---------------------------------------------------------------------------------------------

# What a stream without messages may leave behind.
FORGET_LINES = (
    "DELETE FROM headrace_lines WHERE stream = ?",
    "DELETE FROM headrace_tenants WHERE stream = ?",
    "DELETE FROM headrace_constraints WHERE stream = ?",
)
