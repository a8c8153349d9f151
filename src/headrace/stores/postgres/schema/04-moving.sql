-- Version 4: the seal of a store whose content moves to another store.

-- 1: the store is sealed, and so the stream is paused. 2: the stream was paused before.
ALTER TABLE headrace.streams ADD COLUMN sealed smallint NOT NULL DEFAULT 0;

CREATE TABLE headrace.seals (
    namespace text COLLATE "C" PRIMARY KEY,
    target    text NOT NULL,                 -- where the content is now, for people
    draining  boolean NOT NULL,              -- running work ends, and relays empty the outboxes
    seal      bytea NOT NULL                 -- core/moving/seal.py
);

-- How far the import from another store has come.
CREATE TABLE headrace.imports (
    namespace text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,     -- of the stream in the other store
    name      text COLLATE "C" NOT NULL,
    move      text COLLATE "C" NOT NULL,
    place     text COLLATE "C" NOT NULL,
    count     bigint NOT NULL,
    PRIMARY KEY (namespace, kind, name, move)
);

-- Locks a stream against its removal until the end of the transaction, and gives its number. Makes the stream
-- if there is none. In a sealed store it raises HR002 with the target.
CREATE OR REPLACE FUNCTION headrace.open_stream(in_namespace text, in_kind text, in_name text, establish boolean)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    found_stream integer;
    found_established boolean;
    found_sealed smallint;
    found_target text;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended(in_namespace || E'\n' || in_kind || E'\n' || in_name, 0));
    SELECT stream, established, sealed INTO found_stream, found_established, found_sealed FROM headrace.streams
    WHERE namespace = in_namespace AND kind = in_kind AND name = in_name;
    IF found_sealed = 0 AND (found_established OR NOT establish) THEN
        RETURN found_stream;
    END IF;
    SELECT target INTO found_target FROM headrace.seals WHERE namespace = in_namespace;
    IF FOUND THEN
        RAISE EXCEPTION '%', found_target USING ERRCODE = 'HR002';
    END IF;
    INSERT INTO headrace.streams AS streams (namespace, kind, name, established)
    VALUES (in_namespace, in_kind, in_name, establish)
    ON CONFLICT (namespace, kind, name) DO UPDATE SET established = streams.established OR excluded.established
    RETURNING stream INTO found_stream;
    RETURN found_stream;
END
$$;

-- As `open_stream`, for steps that go on while the store drains.
CREATE FUNCTION headrace.open_draining(in_namespace text, in_kind text, in_name text)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    found_stream integer;
BEGIN
    IF NOT EXISTS (SELECT FROM headrace.seals WHERE namespace = in_namespace AND draining) THEN
        RETURN headrace.open_stream(in_namespace, in_kind, in_name, true);
    END IF;
    INSERT INTO headrace.streams AS streams (namespace, kind, name, established, paused, sealed)
    VALUES (in_namespace, in_kind, in_name, true, true, 1)
    ON CONFLICT (namespace, kind, name) DO UPDATE SET established = true
    RETURNING stream INTO found_stream;
    RETURN found_stream;
END
$$;

-- Writes events without unique keys and delays to the end of a log that exists. `missing`: there is no log yet, or
-- the store is sealed, and nothing was done. `trimmable`: the first event is older, or the log longer, than the topic's rules allow.
CREATE OR REPLACE FUNCTION headrace.publish_plain(
    in_namespace text, in_name text, in_producer text, in_number bigint, ttl_us bigint, offset_us bigint,
    durability text, in_ids text[], in_tasks text[], in_keys text[], in_bodies bytea[], in_lifetimes bigint[],
    OUT missing boolean, OUT answers bytea, OUT refused integer[], OUT written boolean, OUT trimmable boolean
) LANGUAGE plpgsql AS $$
DECLARE
    now_at bigint := headrace.now_us(offset_us);
    topic headrace.topics%ROWTYPE;
    written_at bigint;
BEGIN
    PERFORM headrace.set_durability(durability);
    PERFORM pg_advisory_xact_lock_shared(hashtextextended(in_namespace || E'\ntopic\n' || in_name, 0));
    SELECT topics.* INTO topic
    FROM headrace.streams AS streams JOIN headrace.topics AS topics ON topics.stream = streams.stream
    WHERE streams.namespace = in_namespace AND streams.kind = 'topic' AND streams.name = in_name AND streams.sealed = 0
    FOR UPDATE OF topics;
    missing := topic.stream IS NULL;
    written := false;
    trimmable := false;
    IF missing THEN
        RETURN;
    END IF;
    IF NOT headrace.take_batch(topic.stream, in_producer, in_number, now_at, ttl_us) THEN
        SELECT producers.answers, producers.refused INTO answers, refused FROM headrace.producers AS producers
        WHERE producers.stream = topic.stream AND producers.producer = in_producer;
        RETURN;
    END IF;
    written_at := greatest(now_at, topic.last_us);
    INSERT INTO headrace.events (stream, number, at_us, id, task, expires_us, key, body)
    SELECT topic.stream, topic.last + added.position, written_at, added.id, added.task,
        CASE WHEN added.lifetime > 0 THEN now_at + added.lifetime ELSE 0 END, added.key, added.body
    FROM unnest(in_ids, in_tasks, in_keys, in_bodies, in_lifetimes) WITH ORDINALITY
        AS added (id, task, key, body, lifetime, position);
    UPDATE headrace.topics AS topics SET last = topic.last + cardinality(in_ids), last_us = written_at
    WHERE topics.stream = topic.stream;
    written := true;
    trimmable := coalesce(topic.last + cardinality(in_ids) - topic.max_length >= topic.first, false)
        OR (topic.retention_us > 0 AND topic.first <= topic.last AND (
            SELECT events.at_us <= now_at - topic.retention_us FROM headrace.events AS events
            WHERE events.stream = topic.stream AND events.number = topic.first));
END
$$;

-- A transaction of a user stays usable when the store is sealed: the verdict is 'moved', and `stored_id` the target.
ALTER FUNCTION headrace.append_within(text, text[], bytea[]) RENAME TO append_unsealed;

CREATE FUNCTION headrace.append_within(in_namespace text, in_messages text[], in_bodies bytea[])
RETURNS TABLE (verdict text, stored_id text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT 'moved', target FROM headrace.seals WHERE namespace = in_namespace;
    IF NOT FOUND THEN
        RETURN QUERY SELECT * FROM headrace.append_unsealed(in_namespace, in_messages, in_bodies);
    END IF;
END
$$;
