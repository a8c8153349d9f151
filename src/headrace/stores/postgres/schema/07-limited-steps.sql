-- Version 7: the steps of the hot path for messages with constraints.

-- With it, every change of `running` wrote to all indexes.
DROP INDEX headrace.budgets_idle;

-- Only one step at a time changes lines and budgets of a namespace: `limit_statements.LOCK`. Answers the time, which
-- is read when the lock is held.
CREATE FUNCTION headrace.lock_lines(in_namespace text, offset_us bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '100', true)
    FROM pg_advisory_xact_lock(hashtextextended('headrace.lines ' || in_namespace, 0));
    RETURN headrace.now_us(offset_us);
END
$$;

-- Settles successes of messages that have constraints, and gives back their slots. `in_ttls` NULL: nothing is kept of
-- them. `in_names`, `in_keys` and `in_counts` say how many of the messages have each limit. Answers as
-- `headrace.settle_done`. What it does not settle is for a transaction: messages that another claim holds, and those that
-- have an order key. `blocked`: nothing was done, because a limit blocks lines, which may be opened now.
CREATE FUNCTION headrace.settle_lined(
    in_namespace text, in_streams integer[], in_ids text[], in_seqs bigint[], in_tids tid[], in_claims bigint[],
    in_ttls bigint[], in_results bytea[], in_notes text[], in_states bytea[], in_same boolean[],
    in_names text[], in_keys text[], in_counts bigint[], offset_us bigint, durability text,
    OUT blocked boolean, OUT settled integer[], OUT waited_for integer[]
) LANGUAGE plpgsql AS $$
DECLARE
    at bigint;
    is_all boolean;
    streams_ended integer[];
    keys_ended text[];
    lines_ended bigint[];
    more_settled integer[];
    more_waited_for integer[];
    more_streams integer[];
    more_keys text[];
    more_lines bigint[];
BEGIN
    PERFORM headrace.set_durability(durability);
    at := headrace.lock_lines(in_namespace, offset_us);
    -- Most of the time no line is blocked at all.
    blocked := EXISTS (SELECT FROM headrace.lines WHERE blocked_by > 0) AND EXISTS (
        SELECT FROM unnest(in_names, in_keys) AS held (name, key), LATERAL (
            SELECT budget FROM headrace.budgets AS known
            WHERE known.namespace = in_namespace AND known.name = held.name AND known.key = held.key LIMIT 1) AS found
        WHERE EXISTS (SELECT FROM headrace.lines AS line WHERE line.blocked_by = found.budget));
    IF blocked THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM headrace.messages AS message
        USING unnest(in_tids, in_seqs, in_claims, in_ttls) WITH ORDINALITY AS done (tid, seq, claim, ttl, position)
        WHERE coalesce(done.ttl, 0) <= 0 AND message.ctid = done.tid AND message.seq = done.seq
            AND message.claim = done.claim
            AND message.place + 0 = 7 AND message.constraints IS NOT NULL AND message.order_key IS NULL
        RETURNING done.position::integer AS position, message.stream, message.unique_key, message.awaited,
            message.constraints)
    SELECT array_agg(position), array_agg(position) FILTER (WHERE awaited), array_agg(stream), array_agg(unique_key),
        array_agg(constraints)
    INTO settled, waited_for, streams_ended, keys_ended, lines_ended FROM gone;
    is_all := coalesce(cardinality(settled), 0) = cardinality(in_tids);
    IF NOT is_all THEN
        -- Of some a result is kept. Some rows have moved: a lease was renewed, or a caller waits.
        WITH held AS MATERIALIZED (
            SELECT done.*, message.unique_key, message.awaited, message.constraints
            FROM unnest(in_streams, in_ids, in_seqs, in_claims, in_ttls, in_results, in_notes, in_states, in_same)
                WITH ORDINALITY AS done (stream, id, seq, claim, ttl, result, note, state, same, position)
                JOIN headrace.messages AS message
                    ON message.stream + 0 = done.stream AND message.id = done.id AND message.seq = done.seq
            WHERE message.claim = done.claim AND message.place + 0 = 7 AND message.constraints IS NOT NULL
                AND message.order_key IS NULL
            ORDER BY done.stream, done.id
            FOR UPDATE OF message
        ), gone AS (
            DELETE FROM headrace.messages AS message USING held
            WHERE coalesce(held.ttl, 0) <= 0 AND message.stream + 0 = held.stream AND message.id = held.id
        ), marked AS (
            UPDATE headrace.messages AS message SET
                place = 11, at_us = at + held.ttl, since_us = at, note = held.note, result = held.result,
                state = CASE WHEN held.same THEN message.state ELSE held.state END, body = NULL, awaited = false,
                constraints = NULL
            FROM held WHERE held.ttl > 0 AND message.stream + 0 = held.stream AND message.id = held.id)
        SELECT array_agg(position::integer), array_agg(position::integer) FILTER (WHERE awaited), array_agg(stream),
            array_agg(unique_key), array_agg(constraints)
        INTO more_settled, more_waited_for, more_streams, more_keys, more_lines FROM held;
        settled := settled || more_settled;
        waited_for := waited_for || more_waited_for;
        streams_ended := streams_ended || more_streams;
        keys_ended := keys_ended || more_keys;
        lines_ended := lines_ended || more_lines;
        is_all := cardinality(settled) = cardinality(in_tids);
    END IF;
    IF settled IS NULL THEN
        RETURN;
    END IF;
    IF NOT is_all THEN
        SELECT array_agg(name), array_agg(key), array_agg(held.count) INTO in_names, in_keys, in_counts
        FROM (
            SELECT pair ->> 0 AS name, pair ->> 1 AS key, count(*)
            FROM unnest(lines_ended) AS ended (constraints)
                JOIN headrace.constraints AS limited ON limited.constraints = ended.constraints,
                json_array_elements(limited.content::json -> 0) AS pair
            GROUP BY 1, 2) AS held;
    END IF;
    -- A budget that is idle now stays: most keys come again soon. Otherwise it is pruned.
    -- LIMIT keeps the planner from a join that reads all budgets of the namespace for each key.
    UPDATE headrace.budgets AS budgets SET running = greatest(budgets.running - held.count, 0)
    FROM unnest(in_names, in_keys, in_counts) AS held (name, key, count), LATERAL (
        SELECT ctid AS tid FROM headrace.budgets AS known
        WHERE known.namespace = in_namespace AND known.name = held.name AND known.key = held.key LIMIT 1) AS found
    WHERE budgets.ctid = found.tid;
    DELETE FROM headrace.constraints AS limited
    WHERE constraints IN (SELECT unnest(lines_ended)) AND CASE
        WHEN EXISTS (SELECT FROM headrace.lines AS line WHERE line.constraints = limited.constraints) THEN false
        ELSE NOT EXISTS (
            SELECT FROM headrace.messages AS message WHERE message.constraints = limited.constraints) END;
    PERFORM headrace.count_ended(streams_ended, array_fill(7::smallint, ARRAY[cardinality(settled)]));
    IF cardinality(array_remove(keys_ended, NULL)) > 0 THEN
        DELETE FROM headrace.unique_keys AS keys
        USING unnest(streams_ended, keys_ended, settled) AS ended (stream, key, position)
        WHERE keys.stream = ended.stream AND keys.key = ended.key AND keys.id = in_ids[ended.position]
            AND keys.expires_us IS NULL;
    END IF;
END
$$;

-- The first tenants of a place with their first open lines, and the first messages of these, in JSON
-- (limits/open_lines.py). How many of a tenant and of a line depends on how many tenants there are. NULL: no line is
-- open. The step has the lock of lines.
CREATE FUNCTION headrace.load_lines(
    in_namespace text, in_stream integer, in_place smallint, most_tenants bigint, most_messages bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    all_lines json;
    contents text[];
    some_blocked boolean := EXISTS (SELECT FROM headrace.lines WHERE blocked_by > 0);
BEGIN
    SELECT json_agg(json_build_array(
            tenants.tenant, tenants.turn, tenants.tid, line.line, line.constraints, limited.content::json, line.waiting,
            first_us, first_seq, messages)
            ORDER BY tenants.turn, first_us, first_seq),
        array_agg(DISTINCT limited.content)
    INTO all_lines, contents
    FROM (
        SELECT first.*, most_messages / count(*) OVER () + 2 AS most FROM (
            SELECT tenant, turn, ctid AS tid FROM headrace.tenants WHERE stream = in_stream AND place = in_place
            ORDER BY turn LIMIT most_tenants) AS first
    ) AS tenants
        LEFT JOIN LATERAL (
            SELECT open.*, count(*) OVER () AS lines FROM (
                SELECT * FROM headrace.lines AS open
                WHERE open.stream = in_stream AND open.place = in_place AND open.tenant = tenants.tenant
                    AND blocked_by IS NULL
                ORDER BY first_us, first_seq LIMIT tenants.most) AS open) AS line ON true
        LEFT JOIN headrace.constraints AS limited ON limited.constraints = line.constraints
        LEFT JOIN LATERAL (
            SELECT json_agg(json_build_array(seq, size, at_us, tid) ORDER BY at_us, seq) AS messages FROM (
                SELECT seq, coalesce(octet_length(body), 0) AS size, at_us, queued.ctid AS tid
                FROM headrace.messages AS queued
                WHERE queued.constraints = line.constraints AND queued.place = in_place
                ORDER BY at_us, seq LIMIT greatest((tenants.most - 1) / line.lines + 1, 2)) AS first) AS first ON true;
    RETURN CASE WHEN all_lines IS NOT NULL THEN json_build_object(
        'stream', in_stream,
        'place', in_place,
        'tenants', most_tenants,
        'messages', most_messages,
        'last_turn', (SELECT turn FROM headrace.tenants WHERE stream = in_stream AND place = in_place
            ORDER BY turn DESC LIMIT 1),
        'lines', all_lines,
        'budgets', (
            SELECT json_agg(json_build_array(
                coalesce(budget, 0), wanted.name, wanted.key, coalesce(running, 0), coalesce(next_us, 0),
                coalesce(timer_us, 0), some_blocked AND EXISTS (SELECT FROM headrace.lines WHERE blocked_by = budget)))
            FROM (
                SELECT DISTINCT pair ->> 0 AS name, pair ->> 1 AS key
                FROM unnest(contents) AS content, json_array_elements(content::json -> 0) AS pair) AS wanted
                LEFT JOIN LATERAL (
                    SELECT * FROM headrace.budgets AS stored
                    WHERE stored.namespace = in_namespace AND stored.name = wanted.name AND stored.key = wanted.key
                    LIMIT 1) AS known ON true),
        'figures', (
            SELECT json_object_agg(limits.name, coalesce(override, declared)::json)
            FROM (
                SELECT DISTINCT pair ->> 0 AS name
                FROM unnest(contents) AS content, json_array_elements(content::json -> 0) AS pair) AS wanted
                JOIN headrace.limits AS limits ON limits.namespace = in_namespace AND limits.name = wanted.name)
    )::text END;
END
$$;

-- What a claim finds that may take messages with constraints: the streams that are not paused, each as its position
-- (from 1), its number, whether it held child work, whether it has queued messages without constraints, and the places
-- in which a line is open (NULL: it held no lines). And `headrace.load_lines` of the first such place, in the order of
-- `in_lanes`.
CREATE FUNCTION headrace.open_claim(
    in_namespace text, in_kinds text[], in_names text[], in_lanes smallint[], child_first boolean,
    wants_suspects boolean, wants_children boolean, most_tenants bigint, most_messages bigint,
    OUT streams text, OUT loaded text
) LANGUAGE plpgsql AS $$
DECLARE
    open_streams integer[];
    open_places smallint[];
    first_stream integer;
    first_place smallint;
BEGIN
    SELECT array_agg(found.stream ORDER BY position), array_agg(place ORDER BY position)
    INTO open_streams, open_places
    FROM unnest(in_kinds, in_names) WITH ORDINALITY AS wanted (kind, name, position)
        JOIN headrace.streams AS found
            ON namespace = in_namespace AND found.kind = wanted.kind AND found.name = wanted.name,
        unnest('{-38,-37,-36,-35,-34,-30,-29,-28,-27,-26}'::smallint[]) AS place
    WHERE NOT paused AND held_lines AND EXISTS (
        SELECT FROM headrace.tenants AS tenants WHERE tenants.stream = found.stream AND tenants.place = place.place);
    SELECT json_agg(json_build_array(position, stream, held_children, EXISTS (
            SELECT FROM headrace.messages AS message
            WHERE message.stream = found.stream AND message.place BETWEEN 2 AND 6) OR held_children AND EXISTS (
            SELECT FROM headrace.messages AS message
            WHERE message.stream = found.stream AND message.place BETWEEN -6 AND -2),
            CASE WHEN held_lines THEN ARRAY(
                SELECT place FROM unnest(open_streams, open_places) AS open (stream, place)
                WHERE open.stream = found.stream) END)
            ORDER BY position)
    INTO streams
    FROM unnest(in_kinds, in_names) WITH ORDINALITY AS wanted (kind, name, position)
        JOIN headrace.streams AS found
            ON namespace = in_namespace AND found.kind = wanted.kind AND found.name = wanted.name
    WHERE NOT paused;
    SELECT open.stream, open.place INTO first_stream, first_place
    FROM unnest(in_lanes) WITH ORDINALITY AS wanted (lane, lane_position),
        unnest(ARRAY[child_first, NOT child_first]) WITH ORDINALITY AS work (is_child, work_position),
        unnest(open_streams, open_places) WITH ORDINALITY AS open (stream, place, position)
    WHERE open.place = lane - 32 - CASE WHEN is_child THEN 8 ELSE 0 END
        AND (wants_suspects OR lane <> 2) AND (wants_children OR NOT is_child)
    ORDER BY lane_position, work_position, position LIMIT 1;
    IF first_place IS NOT NULL THEN
        loaded := headrace.load_lines(in_namespace, first_stream, first_place, most_tenants, most_messages);
    END IF;
END
$$;

-- Leases messages of a claim, and writes what follows for their lines, tenants and budgets. The step has the lock of
-- lines. Messages that moved since they were read make it fail, and the step is repeated.
-- `in_lines`, `in_taken`: how many were taken from lines; `in_first_us`, `in_first_seqs`: their first messages now, NULL:
-- must be found. `blocked_lines` have asked `blocking_budgets` in vain. `in_tenants` get `in_turns`. `empty_tenants` may
-- have no open line any more.
CREATE FUNCTION headrace.lease_lined(
    at bigint, token bigint, in_consumer text, in_tids tid[], in_seqs bigint[],
    counted_streams integer[], counted_taken bigint[],
    in_lines bigint[], in_taken bigint[], in_first_us bigint[], in_first_seqs bigint[],
    blocked_lines bigint[], blocking_budgets bigint[], in_tenants tid[], in_turns bigint[],
    empty_tenants tid[],
    in_namespace text, in_budgets bigint[], in_limits text[], in_keys text[], in_running bigint[], in_next_us bigint[],
    in_timer_us bigint[]
) RETURNS TABLE (
    message_stream integer, message_seq bigint, message_id text, message_body bytea, message_state bytea,
    message_priority smallint, message_expires_us bigint, message_child boolean, message_tid tid
) LANGUAGE plpgsql AS $$
DECLARE
    found_messages integer;
BEGIN
    RETURN QUERY
    WITH leased AS (
        UPDATE headrace.messages AS message SET
            place = 7, at_us = at, since_us = at, claim = token, worker = in_consumer,
            unique_until = CASE unique_until WHEN 'started' THEN 'spent' ELSE unique_until END
        FROM unnest(in_tids, in_seqs) AS chosen (tid, seq)
        WHERE message.ctid = chosen.tid AND message.seq = chosen.seq AND message.place <> 7
        RETURNING message.stream, message.seq, message.id, body, state, priority, expires_us, child, message.ctid,
            unique_key, unique_until
    ), freed AS (
        DELETE FROM headrace.unique_keys AS keys USING leased
        WHERE leased.unique_until = 'spent' AND keys.stream = leased.stream AND keys.key = leased.unique_key
            AND keys.id = leased.id AND keys.expires_us IS NULL)
    SELECT stream, seq, id, body, state, priority, expires_us, child, ctid FROM leased;
    GET DIAGNOSTICS found_messages = ROW_COUNT;
    IF found_messages <> cardinality(in_tids) THEN
        RAISE EXCEPTION 'messages have moved' USING ERRCODE = 'serialization_failure';
    END IF;
    IF cardinality(counted_streams) > 0 THEN
        PERFORM headrace.add_counts(
            array_agg(stream), array_agg(-taken), array_agg(taken), array_agg(zero), array_agg(zero), array_agg(zero),
            array_agg(zero))
        FROM (
            SELECT stream, taken, 0::bigint AS zero FROM unnest(counted_streams, counted_taken) AS each (stream, taken)
        ) AS claimed;
    END IF;
    IF cardinality(in_lines) > 0 THEN
        UPDATE headrace.lines AS line
        SET waiting = waiting - taken, first_us = known.first_us, first_seq = known.first_seq
        FROM unnest(in_lines, in_taken, in_first_us, in_first_seqs) AS known (line, taken, first_us, first_seq)
        WHERE line.line = known.line AND known.first_seq IS NOT NULL;
    END IF;
    IF array_position(in_first_seqs, NULL) IS NOT NULL THEN
        WITH unknown AS MATERIALIZED (
            SELECT line.line, each.taken, front.at_us, front.seq
            FROM unnest(in_lines, in_taken, in_first_seqs) AS each (line, taken, first_seq)
                JOIN headrace.lines AS line ON line.line = each.line
                LEFT JOIN LATERAL (
                    SELECT at_us, seq FROM headrace.messages AS queued
                    WHERE queued.constraints = line.constraints AND queued.place = line.place
                    ORDER BY at_us, seq LIMIT 1) AS front ON true
            WHERE each.first_seq IS NULL
        ), changed AS (
            UPDATE headrace.lines AS line
            SET waiting = waiting - taken, first_us = unknown.at_us, first_seq = unknown.seq
            FROM unknown WHERE line.line = unknown.line AND unknown.seq IS NOT NULL
        ), gone AS (
            DELETE FROM headrace.lines AS line USING unknown WHERE line.line = unknown.line AND unknown.seq IS NULL)
        SELECT count(*) INTO found_messages FROM unknown;
    END IF;
    IF cardinality(blocked_lines) > 0 THEN
        UPDATE headrace.lines AS line SET blocked_by = blocked.budget
        FROM unnest(blocked_lines, blocking_budgets) AS blocked (line, budget) WHERE line.line = blocked.line;
    END IF;
    IF cardinality(empty_tenants) > 0 THEN
        DELETE FROM headrace.tenants AS tenants USING unnest(empty_tenants) AS empty (tid)
        WHERE tenants.ctid = empty.tid AND NOT EXISTS (
            SELECT FROM headrace.lines AS line
            WHERE line.stream = tenants.stream AND line.place = tenants.place AND line.tenant = tenants.tenant
                AND blocked_by IS NULL);
    END IF;
    IF cardinality(in_tenants) > 0 THEN
        UPDATE headrace.tenants AS tenants SET turn = moved.turn
        FROM unnest(in_tenants, in_turns) AS moved (tid, turn) WHERE tenants.ctid = moved.tid;
    END IF;
    IF cardinality(in_budgets) > 0 THEN
        PERFORM headrace.write_budgets(
            in_namespace, in_budgets, in_limits, in_keys, in_running, in_next_us, in_timer_us);
    END IF;
END
$$;

-- Writes budgets. One with the number 0 gets a row. A budget that has nothing to keep stays until it is pruned.
CREATE FUNCTION headrace.write_budgets(
    in_namespace text, in_budgets bigint[], in_limits text[], in_keys text[], in_running bigint[], in_next_us bigint[],
    in_timer_us bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE headrace.budgets AS budgets SET
        running = change.running, next_us = change.next_us, timer_us = change.timer_us
    FROM unnest(in_budgets, in_running, in_next_us, in_timer_us) AS change (budget, running, next_us, timer_us)
    WHERE change.budget > 0 AND budgets.budget = change.budget;
    INSERT INTO headrace.budgets (namespace, name, key, running, next_us, timer_us)
    SELECT in_namespace, name, key, running, next_us, timer_us
    FROM unnest(in_budgets, in_limits, in_keys, in_running, in_next_us, in_timer_us)
        AS change (budget, name, key, running, next_us, timer_us)
    WHERE change.budget = 0;
END
$$;
