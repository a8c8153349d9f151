-- A run that says how far it has come may also write log lines, or write them alone. What was there is of runs that
-- will say it again.

DROP TABLE headrace_progress;

CREATE TABLE headrace_progress (
    seq      INTEGER PRIMARY KEY,            -- of the message
    claim    INTEGER NOT NULL,
    fraction REAL,                           -- NULL: it has not said
    text     TEXT NOT NULL,
    at_us    INTEGER NOT NULL,
    log      BLOB                            -- core/messages/job_log.py
) STRICT;
