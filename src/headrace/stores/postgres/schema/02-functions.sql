-- The steps of the hot path, each in one round trip.

-- The time on the store's clock. Tests move it by an offset.
CREATE FUNCTION headrace.now_us(offset_us bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_us
$$;

-- Sets how durable this transaction is: 'default' is what the server has, but at least 'on'.
CREATE FUNCTION headrace.set_durability(durability text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF durability <> 'default' THEN
        PERFORM set_config('synchronous_commit', durability, true);
    ELSIF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

-- Adds to the counts of streams. In PL/pgSQL, which keeps the plan: a function in SQL is planned at each call.
CREATE FUNCTION headrace.add_counts(
    streams integer[], queued bigint[], running bigint[], scheduled bigint[], retrying bigint[],
    dead bigint[], parked bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO headrace.counts AS counts
    SELECT change.*
    FROM (
        SELECT stream, (pg_backend_pid() % 64)::smallint, queued, running, scheduled, retrying, dead, parked
        FROM unnest(streams, queued, running, scheduled, retrying, dead, parked)
            AS each (stream, queued, running, scheduled, retrying, dead, parked)
        ORDER BY stream) AS change
    ON CONFLICT (stream, slot) DO UPDATE SET
        queued = counts.queued + excluded.queued, running = counts.running + excluded.running,
        scheduled = counts.scheduled + excluded.scheduled, retrying = counts.retrying + excluded.retrying,
        dead = counts.dead + excluded.dead, parked = counts.parked + excluded.parked;
END
$$;

-- Locks a stream against its removal until the end of the transaction, and gives its number. Makes the stream
-- if there is none.
CREATE FUNCTION headrace.open_stream(in_namespace text, in_kind text, in_name text, establish boolean)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    found_stream integer;
    found_established boolean;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended(in_namespace || E'\n' || in_kind || E'\n' || in_name, 0));
    SELECT stream, established INTO found_stream, found_established FROM headrace.streams
    WHERE namespace = in_namespace AND kind = in_kind AND name = in_name;
    IF found_stream IS NOT NULL AND (found_established OR NOT establish) THEN
        RETURN found_stream;
    END IF;
    INSERT INTO headrace.streams AS streams (namespace, kind, name, established)
    VALUES (in_namespace, in_kind, in_name, establish)
    ON CONFLICT (namespace, kind, name) DO UPDATE SET established = streams.established OR excluded.established
    RETURNING stream INTO found_stream;
    RETURN found_stream;
END
$$;

-- Notes a batch of a producer. True: the batch is new. False: it was taken before.
CREATE FUNCTION headrace.take_batch(
    in_stream integer, in_producer text, in_number bigint, in_now_us bigint, ttl_us bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO headrace.producers AS producers (stream, producer, number, at_us, answers)
    VALUES (in_stream, in_producer, in_number, in_now_us, NULL)
    ON CONFLICT (stream, producer) DO UPDATE
        SET number = excluded.number, at_us = excluded.at_us, answers = NULL, refused = NULL
        WHERE producers.number <> excluded.number OR producers.at_us + ttl_us <= excluded.at_us;
    RETURN FOUND;
END
$$;

-- Appends messages without unique keys to a queue without a limit. `answers` has what was answered before to
-- the same batch. `refused`: the positions, counted from 1, of messages whose id is known.
CREATE FUNCTION headrace.append_plain(
    in_namespace text, in_name text, in_producer text, in_number bigint, ttl_us bigint, offset_us bigint,
    durability text, is_fresh boolean, has_children boolean,
    in_ids text[], in_tasks text[], in_bodies bytea[], in_priorities smallint[], in_children boolean[],
    in_delays bigint[], in_dues bigint[], in_lifetimes bigint[], in_channel text, in_due_notice text,
    OUT answers bytea, OUT refused integer[], OUT ready boolean
) LANGUAGE plpgsql AS $$
DECLARE
    queue_number integer;
    at bigint := headrace.now_us(offset_us);
    later bigint := 0;
    added bigint := 0;
    earliest bigint;
    before bigint;
    kept text[];
BEGIN
    PERFORM headrace.set_durability(durability);
    queue_number := headrace.open_stream(in_namespace, 'queue', in_name, true);
    ready := false;
    IF NOT headrace.take_batch(queue_number, in_producer, in_number, at, ttl_us) THEN
        SELECT producers.answers, producers.refused INTO answers, refused FROM headrace.producers
        WHERE stream = queue_number AND producer = in_producer;
        RETURN;
    END IF;
    IF has_children THEN
        UPDATE headrace.streams SET held_children = true WHERE stream = queue_number AND NOT held_children;
    END IF;
    IF NOT is_fresh THEN
        DELETE FROM headrace.messages
        WHERE stream + 0 = queue_number AND id = ANY (in_ids) AND place + 0 >= 11 AND at_us <= at;
    END IF;
    IF in_delays IS NOT NULL THEN
        SELECT min(greatest(due, at + delay)) INTO earliest
        FROM unnest(in_delays, in_dues) AS each (delay, due) WHERE greatest(due, at + delay) > at;
        IF earliest IS NOT NULL THEN
            SELECT min(at_us) INTO before FROM (
                (SELECT at_us FROM headrace.messages WHERE stream = queue_number AND place = 8 ORDER BY at_us LIMIT 1)
                UNION ALL
                (SELECT at_us FROM headrace.messages WHERE stream = queue_number AND place = 9 ORDER BY at_us LIMIT 1)
            ) AS due;
        END IF;
        WITH added AS (
            INSERT INTO headrace.messages
                (stream, id, task, place, at_us, since_us, lane, priority, expires_us, child, body)
            SELECT queue_number, each.id, each.task,
                CASE WHEN due_us > at THEN 8 ELSE 4 + priority - CASE WHEN child THEN 8 ELSE 0 END END,
                CASE WHEN due_us > at THEN due_us ELSE at END, at, 4 + priority, priority,
                CASE WHEN lifetime > 0 THEN due_us + lifetime ELSE 0 END, child, each.body
            FROM (
                SELECT wanted.*, greatest(due, at + delay) AS due_us
                FROM unnest(in_ids, in_tasks, in_bodies, in_priorities, in_children, in_delays, in_dues,
                    in_lifetimes) WITH ORDINALITY
                    AS wanted (id, task, body, priority, child, delay, due, lifetime, position)
            ) AS each ORDER BY position
            ON CONFLICT DO NOTHING
            RETURNING id, place)
        SELECT count(*) FILTER (WHERE place = 8), count(*) FILTER (WHERE place <> 8), array_agg(id)
        INTO later, added, kept FROM added;
        -- What is due within a second may be promoted in this moment, by a step that does not see these messages.
        IF later > 0 AND (before IS NULL OR earliest < before OR before <= at + 1000000) THEN
            PERFORM pg_notify(in_channel, in_due_notice);
        END IF;
    ELSE
        -- New ids are hardly ever known. Without ON CONFLICT the server looks at an index once, and writes less.
        BEGIN
            INSERT INTO headrace.messages (stream, id, task, place, at_us, since_us, lane, priority, child, body)
            SELECT queue_number, each.id, each.task, 4 + priority - CASE WHEN child THEN 8 ELSE 0 END, at, at,
                4 + priority, priority, child, each.body
            FROM unnest(in_ids, in_tasks, in_bodies, in_priorities, in_children)
                AS each (id, task, body, priority, child);
            added := cardinality(in_ids);
        EXCEPTION WHEN unique_violation THEN
            WITH added AS (
                INSERT INTO headrace.messages
                    (stream, id, task, place, at_us, since_us, lane, priority, child, body)
                SELECT queue_number, each.id, each.task, 4 + priority - CASE WHEN child THEN 8 ELSE 0 END, at, at,
                    4 + priority, priority, child, each.body
                FROM unnest(in_ids, in_tasks, in_bodies, in_priorities, in_children)
                    AS each (id, task, body, priority, child)
                ON CONFLICT DO NOTHING
                RETURNING id)
            SELECT count(*), array_agg(id) INTO added, kept FROM added;
        END;
    END IF;
    IF added + later < cardinality(in_ids) THEN
        -- A second message with the id of an earlier one in the same batch is refused too.
        SELECT array_agg(position::integer) INTO refused FROM (
            SELECT position, id, row_number() OVER (PARTITION BY id ORDER BY position) AS nth
            FROM unnest(in_ids) WITH ORDINALITY AS each (id, position)) AS numbered
        WHERE nth > 1 OR id <> ALL (coalesce(kept, '{}'));
        UPDATE headrace.producers SET refused = append_plain.refused
        WHERE stream = queue_number AND producer = in_producer;
    END IF;
    ready := added > 0;
    IF added + later > 0 THEN
        PERFORM headrace.add_counts(ARRAY[queue_number], ARRAY[added], '{0}', ARRAY[later], '{0}', '{0}', '{0}');
    END IF;
END
$$;

-- Hands out queued messages, in the order of `in_lanes`; the lane of suspects comes first. Its answer has one
-- row for each message; `nth` is the position of its stream in `in_names`.
CREATE FUNCTION headrace.claim(
    in_namespace text, in_kinds text[], in_names text[], in_consumer text, in_limit integer,
    in_suspects integer, in_children integer, in_lanes smallint[], child_first boolean, token bigint,
    offset_us bigint, most_bytes bigint
) RETURNS TABLE (
    rank bigint, nth integer, stream_number integer, message_seq bigint, message_id text, message_body bytea,
    message_state bytea, message_priority smallint, message_expires_us bigint, message_child boolean,
    claimed_us bigint, message_tid tid
) LANGUAGE plpgsql AS $$
DECLARE
    at bigint := headrace.now_us(offset_us);
    numbers integer[];
    positions integer[];
    with_children integer[];
    searched integer[];
    wanted_lane smallint;
    wanted_place smallint;
    is_child boolean;
    room integer;
    found integer;
    of_children integer := 0;
    bytes bigint := 0;
    found_bytes bigint;
    found_streams integer[];
    found_tids tid[];
    found_sizes bigint[];
    found_starting boolean;
    streams_picked integer[] := '{}';
    tids_picked tid[] := '{}';
    sizes_picked bigint[] := '{}';
    starting boolean := false;
    total integer := 0;
BEGIN
    -- A claim that the server forgets in a crash does no harm: the message is queued again.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT array_agg(streams.stream ORDER BY position), array_agg(position::integer ORDER BY position),
        array_agg(streams.stream ORDER BY position) FILTER (WHERE held_children)
    INTO numbers, positions, with_children
    FROM unnest(in_kinds, in_names) WITH ORDINALITY AS wanted (kind, name, position)
        JOIN headrace.streams AS streams
            ON namespace = in_namespace AND streams.kind = wanted.kind AND streams.name = wanted.name
    WHERE NOT paused;
    IF numbers IS NULL THEN
        RETURN;
    END IF;
    FOREACH wanted_lane IN ARRAY in_lanes LOOP
        FOR pass IN 1..2 LOOP
            is_child := (pass = 1) = child_first;
            searched := CASE WHEN is_child THEN with_children ELSE numbers END;
            room := least(
                in_limit - total,
                CASE WHEN wanted_lane = 2 THEN in_suspects - total ELSE in_limit END,
                CASE WHEN is_child THEN in_children - of_children ELSE in_limit END);
            CONTINUE WHEN room <= 0 OR searched IS NULL OR bytes >= most_bytes;
            wanted_place := wanted_lane - CASE WHEN is_child THEN 8 ELSE 0 END;
            SELECT count(*), array_agg(picked.stream), array_agg(picked.ctid), array_agg(picked.size),
                sum(picked.size), bool_or(picked.unique_until = 'started')
            INTO found, found_streams, found_tids, found_sizes, found_bytes, found_starting
            FROM (
                SELECT ready.* FROM unnest(searched) AS each (number), LATERAL (
                    SELECT message.stream, message.ctid, coalesce(octet_length(message.body), 0)::bigint AS size,
                        message.unique_until
                    FROM headrace.messages AS message
                    WHERE message.stream = each.number AND message.place = wanted_place
                    ORDER BY message.at_us, message.seq LIMIT room FOR UPDATE SKIP LOCKED) AS ready
                LIMIT room) AS picked;
            CONTINUE WHEN found = 0;
            streams_picked := streams_picked || found_streams;
            tids_picked := tids_picked || found_tids;
            sizes_picked := sizes_picked || found_sizes;
            starting := starting OR coalesce(found_starting, false);
            bytes := bytes + found_bytes;
            total := total + found;
            IF is_child THEN
                of_children := of_children + found;
            END IF;
        END LOOP;
    END LOOP;
    IF total = 0 THEN
        RETURN;
    END IF;
    IF bytes > most_bytes THEN
        SELECT greatest(count(*) FILTER (WHERE reached <= most_bytes), 1) INTO total FROM (
            SELECT sum(size) OVER (ORDER BY position) AS reached
            FROM unnest(sizes_picked) WITH ORDINALITY AS each (size, position)) AS measured;
        streams_picked := streams_picked[1:total];
        tids_picked := tids_picked[1:total];
    END IF;
    IF starting THEN
        DELETE FROM headrace.unique_keys AS keys
        USING unnest(tids_picked) AS picked (tid), headrace.messages AS message
        WHERE message.ctid = picked.tid AND message.unique_until = 'started'
            AND keys.stream = message.stream AND keys.key = message.unique_key AND keys.id = message.id
            AND keys.expires_us IS NULL;
    END IF;
    -- The rows are locked, so they stay where they are. By their tids there is only one plan: with old
    -- statistics, the server once read the lane from its start for each id.
    RETURN QUERY
    UPDATE headrace.messages AS message SET
        place = 7, at_us = at, since_us = at, claim = token, worker = in_consumer,
        unique_until = CASE message.unique_until WHEN 'started' THEN 'spent' ELSE message.unique_until END
    FROM unnest(tids_picked) WITH ORDINALITY AS picked (tid, position)
    WHERE message.ctid = picked.tid
    RETURNING picked.position, positions[array_position(numbers, message.stream)], message.stream,
        message.seq, message.id,
        message.body, message.state, message.priority, message.expires_us, message.child, at, message.ctid;
    PERFORM headrace.add_counts(
        array_agg(stream), array_agg(-taken), array_agg(taken), array_fill(0::bigint, ARRAY[count(*)::integer]),
        array_fill(0::bigint, ARRAY[count(*)::integer]), array_fill(0::bigint, ARRAY[count(*)::integer]),
        array_fill(0::bigint, ARRAY[count(*)::integer]))
    FROM (
        SELECT each.stream, count(*) AS taken FROM unnest(streams_picked) AS each (stream) GROUP BY each.stream
    ) AS claimed;
END
$$;

-- Subtracts messages that have ended from the counts of their streams.
CREATE FUNCTION headrace.count_ended(streams integer[], places smallint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM headrace.add_counts(
        array_agg(stream), array_agg(queued), array_agg(running), array_agg(zero), array_agg(zero),
        array_agg(zero), array_agg(parked))
    FROM (
        SELECT stream, -count(*) FILTER (WHERE place NOT IN (1, 7)) AS queued, 0::bigint AS zero,
            -count(*) FILTER (WHERE place = 7) AS running, -count(*) FILTER (WHERE place = 1) AS parked
        FROM unnest(streams, places) AS each (stream, place) GROUP BY stream) AS ended;
END
$$;

-- Settles successes. `in_tids` says where the rows were after their claims: most are still there, and are found
-- without an index. `in_ttls` has 0 where nothing is kept. Answers the positions, counted from 1, of the messages
-- that were queued or running, and of those for which a caller waits. `keyed`: nothing was done, because a group
-- has keys, which must be passed on.
CREATE FUNCTION headrace.settle_done(
    in_streams integer[], in_ids text[], in_seqs bigint[], in_tids tid[], in_ttls bigint[], in_results bytea[], in_notes text[],
    in_states bytea[], in_same boolean[], has_groups boolean, keeps_some boolean, forgets_some boolean,
    offset_us bigint, durability text, OUT keyed boolean, OUT settled integer[], OUT waited_for integer[]
) LANGUAGE plpgsql AS $$
DECLARE
    at bigint := headrace.now_us(offset_us);
    streams_ended integer[];
    places_ended smallint[];
    keys_ended text[];
    more_settled integer[];
    more_waited_for integer[];
    more_streams integer[];
    more_places smallint[];
    more_keys text[];
BEGIN
    PERFORM headrace.set_durability(durability);
    keyed := has_groups AND EXISTS (
        SELECT FROM headrace.groups AS groups WHERE groups.stream = ANY (in_streams) AND groups.keyed);
    IF keyed THEN
        RETURN;
    END IF;
    IF forgets_some THEN
        WITH gone AS (
            DELETE FROM headrace.messages AS message
            USING unnest(in_tids, in_seqs, in_ttls) WITH ORDINALITY AS done (tid, seq, ttl, position)
            WHERE done.ttl <= 0 AND message.ctid = done.tid AND message.seq = done.seq AND message.place + 0 <= 7
            RETURNING done.position::integer AS position, message.stream, message.place, message.unique_key,
                message.awaited)
        SELECT array_agg(position), array_agg(position) FILTER (WHERE awaited), array_agg(stream),
            array_agg(place), array_agg(unique_key)
        INTO settled, waited_for, streams_ended, places_ended, keys_ended FROM gone;
        IF coalesce(cardinality(settled), 0) < cardinality(in_tids) THEN
            -- Some rows have moved: a lease was renewed, or a caller waits.
            WITH gone AS (
                DELETE FROM headrace.messages AS message
                USING unnest(in_streams, in_ids, in_seqs, in_ttls) WITH ORDINALITY
                    AS done (stream, id, seq, ttl, position)
                WHERE done.ttl <= 0 AND done.position <> ALL (coalesce(settled, '{}'))
                    AND message.stream + 0 = done.stream AND message.id = done.id
                    AND message.seq = done.seq AND message.place + 0 <= 7
                RETURNING done.position::integer AS position, message.stream, message.place,
                    message.unique_key, message.awaited)
            SELECT array_agg(position), array_agg(position) FILTER (WHERE awaited), array_agg(stream),
                array_agg(place), array_agg(unique_key)
            INTO more_settled, more_waited_for, more_streams, more_places, more_keys FROM gone;
            settled := settled || more_settled;
            waited_for := waited_for || more_waited_for;
            streams_ended := streams_ended || more_streams;
            places_ended := places_ended || more_places;
            keys_ended := keys_ended || more_keys;
        END IF;
    END IF;
    IF keeps_some THEN
        WITH held AS MATERIALIZED (
            SELECT done.*, message.place, message.unique_key, message.awaited
            FROM unnest(in_streams, in_ids, in_seqs, in_ttls, in_results, in_notes, in_states, in_same)
                WITH ORDINALITY AS done (stream, id, seq, ttl, result, note, state, same, position)
                JOIN headrace.messages AS message
                    ON message.stream + 0 = done.stream AND message.id = done.id AND message.seq = done.seq
            WHERE done.ttl > 0 AND message.place + 0 <= 7
            ORDER BY done.stream, done.id
            FOR UPDATE OF message
        ), marked AS (
            UPDATE headrace.messages AS message SET
                place = 11, at_us = at + held.ttl, since_us = at, note = held.note, result = held.result,
                state = CASE WHEN held.same THEN message.state ELSE held.state END, body = NULL, awaited = false
            FROM held WHERE message.stream + 0 = held.stream AND message.id = held.id)
        SELECT array_agg(position::integer), array_agg(position::integer) FILTER (WHERE awaited),
            array_agg(stream), array_agg(place), array_agg(unique_key)
        INTO more_settled, more_waited_for, more_streams, more_places, more_keys FROM held;
        settled := settled || more_settled;
        waited_for := waited_for || more_waited_for;
        streams_ended := streams_ended || more_streams;
        places_ended := places_ended || more_places;
        keys_ended := keys_ended || more_keys;
    END IF;
    IF settled IS NULL THEN
        RETURN;
    END IF;
    PERFORM headrace.count_ended(streams_ended, places_ended);
    IF cardinality(array_remove(keys_ended, NULL)) > 0 THEN
        DELETE FROM headrace.unique_keys AS keys
        USING unnest(streams_ended, keys_ended, settled) AS ended (stream, key, position)
        WHERE keys.stream = ended.stream AND keys.key = ended.key AND keys.id = in_ids[ended.position]
            AND keys.expires_us IS NULL;
    END IF;
END
$$;

-- Writes events without unique keys and delays to the end of a log that exists. `missing`: there is no log yet, and
-- nothing was done. `trimmable`: the first event is older, or the log longer, than the topic's rules allow.
CREATE FUNCTION headrace.publish_plain(
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
    WHERE streams.namespace = in_namespace AND streams.kind = 'topic' AND streams.name = in_name
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
