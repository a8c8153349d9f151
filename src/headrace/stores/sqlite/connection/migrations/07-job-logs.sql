-- A run may report log lines with its progress, or without it. The old rows can go: their runs report
-- progress again.

DROP TABLE headrace_progress;

CREATE TABLE headrace_progress (
    seq      INTEGER PRIMARY KEY,            -- of the message
    claim    INTEGER NOT NULL,
    fraction REAL,                           -- NULL: it has reported none
    text     TEXT NOT NULL,
    at_us    INTEGER NOT NULL,
    log      BLOB                            -- core/messages/job_log.py
) STRICT;
