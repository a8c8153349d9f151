-- Version 1.
--
-- The names begin with headrace_, so that the file may also hold an application's own tables.

CREATE TABLE headrace_streams (
    stream      INTEGER PRIMARY KEY,
    namespace   TEXT NOT NULL,
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    established INTEGER NOT NULL,            -- ensured or appended to, not only paused
    lease_us    INTEGER,                     -- NULL: nobody has ensured it yet
    paused      INTEGER NOT NULL DEFAULT 0,
    -- How many messages are in each state, kept up by every transaction that moves some.
    queued      INTEGER NOT NULL DEFAULT 0,
    running     INTEGER NOT NULL DEFAULT 0,
    scheduled   INTEGER NOT NULL DEFAULT 0,
    retrying    INTEGER NOT NULL DEFAULT 0,
    dead        INTEGER NOT NULL DEFAULT 0,
    UNIQUE (namespace, kind, name)
) STRICT;

-- One row a message for as long as anything is known of it: waiting, running, dead, or a mark of its end.
-- So an id is unique in all these states by one index, and every listing is a range of another.
CREATE TABLE headrace_messages (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: it is a part of every claim's token
    stream       INTEGER NOT NULL,
    place        INTEGER NOT NULL,           -- places.py
    at_us        INTEGER NOT NULL,           -- queued: ready since; running: leased or renewed; scheduled and
                                             -- retrying: due; dead: since; marks: kept until
    since_us     INTEGER NOT NULL,           -- running: claimed; marks: ended
    claim        INTEGER NOT NULL,           -- the number of the last hand-out
    worker       INTEGER NOT NULL,           -- who holds it, while it runs
    lane         INTEGER NOT NULL CHECK (lane BETWEEN 2 AND 6),  -- where it is queued when its time has come
    priority     INTEGER NOT NULL,
    expires_us   INTEGER NOT NULL,           -- 0: never
    id           TEXT NOT NULL,
    task         TEXT NOT NULL,
    unique_key   TEXT,                       -- as it was appended with; who holds a key is in headrace_unique_keys
    unique_until TEXT,                       -- finished, started (then spent) or elapsed
    cancel_us    INTEGER,                    -- cancellation was asked for, with a mark for that long
    reason       TEXT,                       -- why it is dead
    note         TEXT,
    state        BLOB,                       -- NULL: nothing went wrong so far
    failure      BLOB,
    result       BLOB,
    body         BLOB                        -- last, since a long one spills over; NULL after the end
) STRICT;

CREATE UNIQUE INDEX headrace_messages_id ON headrace_messages (stream, id);

-- Each lane, the leases, the due times, the dead letters and the marks are ranges of this one index, in the
-- order in which they are wanted; a row is in one place, so one full index costs what four partial ones would.
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
    number   INTEGER NOT NULL,               -- of its last batch
    at_us    INTEGER NOT NULL,
    answers  BLOB,                           -- NULL: every message of the batch was accepted
    PRIMARY KEY (stream, producer)
) STRICT, WITHOUT ROWID;

CREATE TABLE headrace_workers (
    worker    INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    consumer  TEXT NOT NULL,
    seen_us   INTEGER NOT NULL,
    info      BLOB,                          -- as it announced itself; NULL: it has not, or has left
    UNIQUE (namespace, consumer)
) STRICT;

CREATE TABLE headrace_orders (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    at_us     INTEGER NOT NULL,
    content   TEXT NOT NULL
) STRICT;

-- Six bytes each from the first number on, for rows that keep their size (places.py).
INSERT INTO sqlite_sequence (name, seq) VALUES ('headrace_workers', 1 << 40);
