-- Adds outboxes: what settlements forward to other streams, until a relay has appended it there.

CREATE TABLE headrace_outgoing (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    stream  INTEGER NOT NULL,                -- the stream of the outbox
    at_us   INTEGER NOT NULL,
    content BLOB NOT NULL                    -- core/messages/outgoing.py
) STRICT;

CREATE INDEX headrace_outgoing_stream ON headrace_outgoing (stream, seq);

CREATE TABLE headrace_outboxes (
    stream INTEGER PRIMARY KEY,
    batch  BLOB NOT NULL                     -- the batch under way: core/rules/outbox.py
) STRICT;
