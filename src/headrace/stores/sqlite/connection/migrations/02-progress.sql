-- How far running messages have come. A row counts as long as its message runs under the same claim; others are
-- forgotten from time to time. Apart from the messages, whose rows must keep their size (places.py).

CREATE TABLE headrace_progress (
    seq      INTEGER PRIMARY KEY,            -- of the message
    claim    INTEGER NOT NULL,
    fraction REAL NOT NULL,
    text     TEXT NOT NULL,
    at_us    INTEGER NOT NULL
) STRICT;

-- A lease that was shortened still holds as it was until then.
ALTER TABLE headrace_streams ADD COLUMN longer_lease_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE headrace_streams ADD COLUMN longer_until_us INTEGER NOT NULL DEFAULT 0;
