-- Adds limits, tenants and ordered jobs. A queued message with constraints has a place from -38 to -26
-- (stores/sql/lanes.py), so the claim of other messages never reads it.

ALTER TABLE headrace_messages ADD COLUMN constraints INTEGER;  -- never changes, so that rows keep their size
ALTER TABLE headrace_messages ADD COLUMN order_key TEXT;       -- its owner is in headrace_unique_keys
ALTER TABLE headrace_streams ADD COLUMN held_lines INTEGER NOT NULL DEFAULT 0;  -- it ever had constraints

CREATE INDEX headrace_messages_line ON headrace_messages (constraints, place, at_us)
    WHERE constraints IS NOT NULL;
CREATE INDEX headrace_messages_behind ON headrace_messages (stream, order_key, at_us)
    WHERE place = 1 AND order_key IS NOT NULL;

-- The constraints of messages. They are text in JSON: core/messages/constraints.py
CREATE TABLE headrace_constraints (
    constraints INTEGER PRIMARY KEY,
    stream      INTEGER NOT NULL,
    content     TEXT NOT NULL,
    UNIQUE (stream, content)
) STRICT;

-- The queued messages of one place that have the same constraints. A line without a message has no row.
CREATE TABLE headrace_lines (
    line        INTEGER PRIMARY KEY,
    constraints INTEGER NOT NULL,
    place       INTEGER NOT NULL,
    stream      INTEGER NOT NULL,
    tenant      TEXT NOT NULL,
    waiting     INTEGER NOT NULL,
    first_us    INTEGER NOT NULL,            -- its first message
    first_seq   INTEGER NOT NULL,
    blocked_by  INTEGER,                     -- a budget; NULL: the line is open
    UNIQUE (constraints, place)
) STRICT;

CREATE INDEX headrace_lines_open ON headrace_lines (stream, place, tenant, first_us, first_seq)
    WHERE blocked_by IS NULL;
-- Child work comes last: a worker may have no child process for it.
CREATE INDEX headrace_lines_blocked ON headrace_lines (blocked_by, stream, place < -32, place, first_us, first_seq)
    WHERE blocked_by IS NOT NULL;

-- The tenants that have open lines, in the order of their turns.
CREATE TABLE headrace_tenants (
    stream INTEGER NOT NULL,
    place  INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    turn   INTEGER NOT NULL,
    PRIMARY KEY (stream, place, tenant)
) STRICT, WITHOUT ROWID;

CREATE INDEX headrace_tenants_turn ON headrace_tenants (stream, place, turn);

CREATE TABLE headrace_limits (
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    declared  TEXT NOT NULL,                 -- figures in JSON
    override  TEXT,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

-- A limit, or one key of it, while messages run or wait for it.
CREATE TABLE headrace_budgets (
    budget    INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    key       TEXT NOT NULL,
    running   INTEGER NOT NULL DEFAULT 0,
    next_us   INTEGER NOT NULL DEFAULT 0,    -- core/limits/rate.py
    timer_us  INTEGER NOT NULL DEFAULT 0,    -- when tokens are looked for; 0: no line waits for tokens
    UNIQUE (namespace, name, key)
) STRICT;

CREATE INDEX headrace_budgets_timer ON headrace_budgets (namespace, timer_us) WHERE timer_us > 0;
