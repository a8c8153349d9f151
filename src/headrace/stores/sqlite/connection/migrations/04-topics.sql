-- Adds topics and groups.

CREATE TABLE headrace_topics (
    stream       INTEGER PRIMARY KEY,        -- the topic's stream
    first        INTEGER NOT NULL DEFAULT 1, -- the first event that is left; last + 1: none is left
    last         INTEGER NOT NULL DEFAULT 0, -- the last event that was written
    last_us      INTEGER NOT NULL DEFAULT 0,
    retention_us INTEGER NOT NULL,           -- 0: no limit by age
    max_length   INTEGER,                    -- NULL: no limit by length
    strict       INTEGER NOT NULL
) STRICT;

-- The logs. A topic's events are stored next to each other in the order of their numbers, so that groups,
-- readers and trimming each read a range of the table itself.
CREATE TABLE headrace_events (
    event      INTEGER PRIMARY KEY,          -- (stream << 40) + number
    stream     INTEGER NOT NULL,
    at_us      INTEGER NOT NULL,             -- when it was written; never before the previous event
    expires_us INTEGER NOT NULL,             -- 0: never
    id         TEXT NOT NULL,
    task       TEXT NOT NULL,
    key        TEXT NOT NULL,                -- '': none
    body       BLOB NOT NULL
) STRICT;

CREATE INDEX headrace_events_id ON headrace_events (stream, id);

CREATE TABLE headrace_groups (
    stream   INTEGER PRIMARY KEY,            -- the stream of the events that it has drawn
    topic    INTEGER NOT NULL,               -- the topic's stream
    position INTEGER NOT NULL,               -- the number of the last event that it has drawn
    seen_us  INTEGER NOT NULL,               -- when a member was last seen
    ordered  INTEGER NOT NULL,
    removed  INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX headrace_groups_topic ON headrace_groups (topic);

-- Events that an ordered group has parked behind another event of their key have place 1. These messages, and
-- the messages of topics that are due later, have the event's key in `unique_key`. The owner of a key is in
-- headrace_unique_keys, as for jobs.
ALTER TABLE headrace_streams ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;
CREATE INDEX headrace_messages_parked ON headrace_messages (stream, unique_key, at_us) WHERE place = 1;
