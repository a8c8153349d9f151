-- Adds topics and groups.

CREATE TABLE headrace_topics (
    stream       INTEGER PRIMARY KEY,        -- the topic's
    first        INTEGER NOT NULL DEFAULT 1, -- of the events that are left; last + 1: none is
    last         INTEGER NOT NULL DEFAULT 0, -- that was written
    last_us      INTEGER NOT NULL DEFAULT 0,
    retention_us INTEGER NOT NULL,           -- 0: no bound by age
    max_length   INTEGER,                    -- NULL: no bound by length
    strict       INTEGER NOT NULL
) STRICT;

-- The logs. A topic's events lie beside each other in the order of their numbers, so that groups, readers and
-- trimming each walk a range of the table itself.
CREATE TABLE headrace_events (
    event      INTEGER PRIMARY KEY,          -- (stream << 40) + number
    stream     INTEGER NOT NULL,
    at_us      INTEGER NOT NULL,             -- written; never before the event in front of it
    expires_us INTEGER NOT NULL,             -- 0: never
    id         TEXT NOT NULL,
    task       TEXT NOT NULL,
    key        TEXT NOT NULL,                -- '': none
    body       BLOB NOT NULL
) STRICT;

CREATE INDEX headrace_events_id ON headrace_events (stream, id);

CREATE TABLE headrace_groups (
    stream   INTEGER PRIMARY KEY,            -- of what it has drawn
    topic    INTEGER NOT NULL,               -- the topic's stream
    position INTEGER NOT NULL,               -- the number of the last event that it has drawn
    seen_us  INTEGER NOT NULL,               -- a member of it, the last time
    ordered  INTEGER NOT NULL,
    removed  INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX headrace_groups_topic ON headrace_groups (topic);

-- What an ordered group has parked behind another event of its key: place 1. Such messages, and those of
-- topics that are due later, have the event's key in `unique_key`; who holds a key is in
-- headrace_unique_keys, as for jobs.
ALTER TABLE headrace_streams ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;
CREATE INDEX headrace_messages_parked ON headrace_messages (stream, unique_key, at_us) WHERE place = 1;
