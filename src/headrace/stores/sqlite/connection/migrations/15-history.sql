-- Adds the history of queues: jobs that have ended, for people to read.

CREATE TABLE headrace_history (
    stream    INTEGER NOT NULL,
    id        TEXT NOT NULL,
    ended_us  INTEGER NOT NULL,
    task      TEXT NOT NULL,
    status    TEXT NOT NULL,
    until_us  INTEGER,               -- NULL: its time is not limited
    size      INTEGER NOT NULL,
    content   BLOB NOT NULL,
    PRIMARY KEY (stream, id)
) STRICT;

CREATE INDEX headrace_history_order ON headrace_history (stream, ended_us, id);
CREATE INDEX headrace_history_expiry ON headrace_history (until_us) WHERE until_us IS NOT NULL;

-- How much the history of a stream holds, so that trimming need not add it up.
CREATE TABLE headrace_history_sizes (
    stream  INTEGER PRIMARY KEY,
    entries INTEGER NOT NULL,
    size    INTEGER NOT NULL
) STRICT;

CREATE TRIGGER headrace_history_added AFTER INSERT ON headrace_history BEGIN
    INSERT INTO headrace_history_sizes (stream, entries, size) VALUES (new.stream, 1, new.size)
    ON CONFLICT DO UPDATE SET entries = entries + 1, size = size + excluded.size;
END;

CREATE TRIGGER headrace_history_changed AFTER UPDATE ON headrace_history BEGIN
    UPDATE headrace_history_sizes SET size = size + new.size - old.size WHERE stream = new.stream;
END;

CREATE TRIGGER headrace_history_removed AFTER DELETE ON headrace_history BEGIN
    UPDATE headrace_history_sizes SET entries = entries - 1, size = size - old.size WHERE stream = old.stream;
END;
