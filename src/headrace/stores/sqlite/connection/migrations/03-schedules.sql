-- Adds schedules.

CREATE TABLE headrace_schedules (
    stream     INTEGER NOT NULL,
    name       TEXT NOT NULL,
    last_us    INTEGER NOT NULL,             -- every firing up to this time is handled
    fired_us   INTEGER NOT NULL DEFAULT 0,   -- the last firing; 0: none yet
    paused     INTEGER NOT NULL DEFAULT 0,
    definition BLOB,                         -- NULL: the code declares it
    PRIMARY KEY (stream, name)
) STRICT, WITHOUT ROWID;
