-- The outbox in a SQLite file of the user. The script may run any number of times.

CREATE TABLE IF NOT EXISTS headrace_outbox (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    at_us     INTEGER NOT NULL,
    content   BLOB NOT NULL
);

CREATE INDEX IF NOT EXISTS headrace_outbox_namespace ON headrace_outbox (namespace, seq);

-- The batch that relays have under way, of each namespace.
CREATE TABLE IF NOT EXISTS headrace_outbox_batches (
    namespace TEXT PRIMARY KEY,
    batch     BLOB NOT NULL
);
