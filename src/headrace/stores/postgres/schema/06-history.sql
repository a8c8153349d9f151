-- Version 6: the history of queues: jobs that have ended, for people to read.

CREATE TABLE headrace.history (
    stream   integer NOT NULL,
    id       text COLLATE "C" NOT NULL,
    ended_us bigint NOT NULL,
    task     bytea NOT NULL,                -- text in UTF-8: PostgreSQL's text cannot hold every character
    status   text COLLATE "C" NOT NULL,
    until_us bigint,                        -- NULL: its time is not limited
    size     integer NOT NULL,
    content  bytea NOT NULL,
    PRIMARY KEY (stream, id)
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 2000);

-- Compression would cost more time than it saves room.
ALTER TABLE headrace.history ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE INDEX history_order ON headrace.history (stream, ended_us, id) INCLUDE (size);
CREATE INDEX history_expiry ON headrace.history (until_us) WHERE until_us IS NOT NULL;
