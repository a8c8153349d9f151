-- The progress of running messages. A row is valid while its message runs under the same claim; other rows
-- are pruned. Progress has its own table, because rows of messages must keep their size (stores/sql/lanes.py).

CREATE TABLE headrace_progress (
    seq      INTEGER PRIMARY KEY,            -- of the message
    claim    INTEGER NOT NULL,
    fraction REAL NOT NULL,
    text     TEXT NOT NULL,
    at_us    INTEGER NOT NULL
) STRICT;

-- After a lease was shortened, the longer lease applies until this time.
ALTER TABLE headrace_streams ADD COLUMN longer_lease_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE headrace_streams ADD COLUMN longer_until_us INTEGER NOT NULL DEFAULT 0;
