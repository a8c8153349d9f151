-- Version 1.
--
-- The names begin with headrace_, so that the file may also hold an application's own tables.

CREATE TABLE headrace_streams (
    stream      INTEGER PRIMARY KEY,
    namespace   TEXT NOT NULL,
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    established INTEGER NOT NULL,            -- declared or appended to, not only paused
    lease_us    INTEGER,                     -- NULL: no process has declared it yet
    paused      INTEGER NOT NULL DEFAULT 0,
    -- How many messages are in each state. Every transaction that moves messages updates these.
    queued      INTEGER NOT NULL DEFAULT 0,
    running     INTEGER NOT NULL DEFAULT 0,
    scheduled   INTEGER NOT NULL DEFAULT 0,
    retrying    INTEGER NOT NULL DEFAULT 0,
    dead        INTEGER NOT NULL DEFAULT 0,
    UNIQUE (namespace, kind, name)
) STRICT;

-- One row for each message that waits, runs or is dead, or has an end record.
-- So one index makes an id unique in all these states, and every listing is a range of another index.
CREATE TABLE headrace_messages (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: it is part of every claim's token
    stream       INTEGER NOT NULL,
    place        INTEGER NOT NULL,           -- stores/sql/lanes.py
    at_us        INTEGER NOT NULL,           -- queued: ready since; running: leased or renewed; scheduled and
                                             -- retrying: due; dead: since; end records: kept until
    since_us     INTEGER NOT NULL,           -- running: claimed; end records: ended
    claim        INTEGER NOT NULL,           -- the number of the last claim
    worker       INTEGER NOT NULL,           -- the worker that holds it, while it runs
    lane         INTEGER NOT NULL CHECK (lane BETWEEN 2 AND 6),  -- where it is queued when it is due
    priority     INTEGER NOT NULL,
    expires_us   INTEGER NOT NULL,           -- 0: never
    id           TEXT NOT NULL,
    task         TEXT NOT NULL,
    unique_key   TEXT,                       -- as appended; the owner of a key is in headrace_unique_keys
    unique_until TEXT,                       -- finished, started (then spent) or elapsed
    cancel_us    INTEGER,                    -- cancellation was requested, with an end record for this time
    reason       TEXT,                       -- why it is dead
    note         TEXT,
    state        BLOB,                       -- NULL: nothing has gone wrong so far
    failure      BLOB,
    result       BLOB,
    body         BLOB                        -- last, since a long one uses overflow pages; NULL after the end
) STRICT;

CREATE UNIQUE INDEX headrace_messages_id ON headrace_messages (stream, id);

-- Each lane, the leases, the due times, the dead letters and the end records are ranges of this one index, in
-- the wanted order. A row is in one place, so one full index costs as much as four partial ones.
CREATE INDEX headrace_messages_place ON headrace_messages (stream, place, at_us);

CREATE TABLE headrace_unique_keys (
    stream     INTEGER NOT NULL,
    key        TEXT NOT NULL,
    id         TEXT NOT NULL,
    expires_us INTEGER,                      -- NULL: until its owner has started or finished
    PRIMARY KEY (stream, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX headrace_unique_keys_expiry ON headrace_unique_keys (expires_us) WHERE expires_us IS NOT NULL;

CREATE TABLE headrace_producers (
    stream   INTEGER NOT NULL,
    producer TEXT NOT NULL,
    number   INTEGER NOT NULL,               -- the number of its last batch
    at_us    INTEGER NOT NULL,
    answers  BLOB,                           -- NULL: every message of the batch was accepted
    PRIMARY KEY (stream, producer)
) STRICT, WITHOUT ROWID;

CREATE TABLE headrace_workers (
    worker    INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    consumer  TEXT NOT NULL,
    seen_us   INTEGER NOT NULL,
    info      BLOB,                          -- its announcement; NULL: there is none, or the worker has left
    UNIQUE (namespace, consumer)
) STRICT;

CREATE TABLE headrace_orders (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    at_us     INTEGER NOT NULL,
    content   TEXT NOT NULL
) STRICT;

-- Every number takes six bytes from the first one on, so that rows keep their size (stores/sql/lanes.py).
INSERT INTO sqlite_sequence (name, seq) VALUES ('headrace_workers', 1 << 40);
