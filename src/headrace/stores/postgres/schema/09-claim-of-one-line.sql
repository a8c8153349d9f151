-- Version 9: a claim in one statement, where the streams have one open line and nothing else.

-- Claims from the only open line of these streams, at most `in_limit` messages and about `most_bytes`. A rank of 0: it did
-- nothing, and `nth` says how many open lines there are (0, 1, or 2 for more). Then a transaction decides (limits/taking.py):
-- there are several lines, messages without constraints, suspects or child work, lines that a limit blocks, a rate, or
-- fewer free slots than messages. Otherwise the rows are those of `headrace.claim`, with the constraints.
CREATE FUNCTION headrace.claim_line(
    in_namespace text, in_kinds text[], in_names text[], in_consumer text, in_limit bigint, in_lanes smallint[],
    token bigint, offset_us bigint, most_bytes bigint
) RETURNS TABLE (
    rank bigint, nth integer, stream_number integer, message_seq bigint, message_id text, message_body bytea,
    message_state bytea, message_priority smallint, message_expires_us bigint, message_child boolean,
    claimed_us bigint, message_tid tid, message_constraints text
) LANGUAGE plpgsql AS $$
DECLARE
    at bigint;
    numbers integer[];
    positions integer[];
    with_children integer[];
    only_line headrace.lines%ROWTYPE;
    line_count integer;
    line_content text;
    limit_names text[];
    limit_keys text[];
    budget_tids tid[];
    has_rate boolean;
    free bigint;
    tids tid[];
    later_us bigint[];
    later_seqs bigint[];
    taken bigint;
    updated bigint;
BEGIN
    -- A claim that the server forgets in a crash does no harm: the message is queued again.
    PERFORM set_config('synchronous_commit', 'off', true);
    at := headrace.lock_lines(in_namespace, offset_us);
    SELECT array_agg(streams.stream), array_agg(position::integer), array_agg(streams.stream) FILTER (WHERE held_children)
    INTO numbers, positions, with_children
    FROM unnest(in_kinds, in_names) WITH ORDINALITY AS wanted (kind, name, position)
        JOIN headrace.streams AS streams
            ON namespace = in_namespace AND streams.kind = wanted.kind AND streams.name = wanted.name
    WHERE NOT paused;
    SELECT count(*) INTO line_count FROM (
        SELECT FROM headrace.lines WHERE stream = ANY (numbers) AND blocked_by IS NULL LIMIT 2) AS first;
    IF line_count = 1 THEN
        SELECT * INTO only_line FROM headrace.lines WHERE stream = ANY (numbers) AND blocked_by IS NULL;
        SELECT content INTO line_content FROM headrace.constraints WHERE constraints = only_line.constraints;
    END IF;
    IF line_content IS NULL OR NOT only_line.place + 32 = ANY (in_lanes)
        OR EXISTS (SELECT FROM headrace.lines WHERE blocked_by > 0)
        OR EXISTS (
            SELECT FROM unnest(numbers) AS each (number), LATERAL (
                SELECT FROM headrace.messages AS message
                WHERE message.stream = each.number AND message.place BETWEEN 2 AND 6 LIMIT 1) AS plain)
        OR EXISTS (
            SELECT FROM headrace.messages AS message
            WHERE message.stream = ANY (with_children) AND message.place BETWEEN -6 AND -2)
    THEN
        RETURN QUERY SELECT 0::bigint, line_count, NULL::integer, NULL::bigint, NULL::text, NULL::bytea, NULL::bytea,
            NULL::smallint, NULL::bigint, NULL::boolean, NULL::bigint, NULL::tid, NULL::text;
        RETURN;
    END IF;
    -- LIMIT keeps the planner from a join that reads all budgets of the namespace.
    SELECT array_agg(wanted.name), array_agg(wanted.key), array_agg(budget.tid),
        bool_or(coalesce(override, declared)::json ->> 'rate' IS NOT NULL),
        min((coalesce(override, declared)::json ->> 'max_running')::bigint - coalesce(budget.running, 0))
    INTO limit_names, limit_keys, budget_tids, has_rate, free
    FROM (
        SELECT DISTINCT pair ->> 0 AS name, pair ->> 1 AS key FROM json_array_elements(line_content::json -> 0) AS pair
    ) AS wanted
        LEFT JOIN LATERAL (
            SELECT ctid AS tid, stored.running FROM headrace.budgets AS stored
            WHERE stored.namespace = in_namespace AND stored.name = wanted.name AND stored.key = wanted.key
            LIMIT 1) AS budget ON true
        LEFT JOIN headrace.limits AS limits ON limits.namespace = in_namespace AND limits.name = wanted.name;
    IF NOT coalesce(has_rate, false) AND coalesce(free >= least(in_limit, only_line.waiting), true) THEN
        -- One more than are wanted: it is the first of the line after that.
        SELECT array_agg(tid) FILTER (WHERE is_chosen), array_agg(at_us ORDER BY at_us, seq) FILTER (WHERE NOT is_chosen),
            array_agg(seq ORDER BY at_us, seq) FILTER (WHERE NOT is_chosen)
        INTO tids, later_us, later_seqs
        FROM (
            SELECT tid, at_us, seq, row_number() OVER line <= least(in_limit, free)
                AND sum(size) OVER line - size < most_bytes AS is_chosen
            FROM (
                SELECT queued.ctid AS tid, at_us, seq, coalesce(octet_length(body), 0) AS size
                FROM headrace.messages AS queued
                WHERE queued.constraints = only_line.constraints AND queued.place = only_line.place
                ORDER BY at_us, seq LIMIT in_limit + 1) AS first
            WINDOW line AS (ORDER BY at_us, seq ROWS UNBOUNDED PRECEDING)) AS measured;
        taken := cardinality(tids);
    END IF;
    IF coalesce(taken, 0) = 0 THEN
        RETURN QUERY SELECT 0::bigint, line_count, NULL::integer, NULL::bigint, NULL::text, NULL::bytea, NULL::bytea,
            NULL::smallint, NULL::bigint, NULL::boolean, NULL::bigint, NULL::tid, NULL::text;
        RETURN;
    END IF;
    RETURN QUERY
    WITH leased AS (
        UPDATE headrace.messages AS message SET
            place = 7, at_us = at, since_us = at, claim = token, worker = in_consumer,
            unique_until = CASE unique_until WHEN 'started' THEN 'spent' ELSE unique_until END
        FROM unnest(tids) WITH ORDINALITY AS chosen (tid, position)
        WHERE message.ctid = chosen.tid AND message.place <> 7
        RETURNING position, message.stream, message.seq, message.id, body, state, priority, expires_us, child,
            message.ctid, unique_key, unique_until
    ), freed AS (
        DELETE FROM headrace.unique_keys AS keys USING leased
        WHERE leased.unique_until = 'spent' AND keys.stream = leased.stream AND keys.key = leased.unique_key
            AND keys.id = leased.id AND keys.expires_us IS NULL)
    SELECT position, positions[array_position(numbers, stream)], stream, seq, id, body, state, priority, expires_us,
        child, at, ctid, line_content
    FROM leased;
    GET DIAGNOSTICS updated = ROW_COUNT;
    IF updated <> taken THEN
        RAISE EXCEPTION 'messages have moved' USING ERRCODE = 'serialization_failure';
    END IF;
    PERFORM headrace.add_counts(
        ARRAY[only_line.stream], ARRAY[-taken], ARRAY[taken], ARRAY[0::bigint], ARRAY[0::bigint], ARRAY[0::bigint],
        ARRAY[0::bigint]);
    IF later_seqs IS NULL THEN
        DELETE FROM headrace.lines WHERE line = only_line.line;
        DELETE FROM headrace.tenants
        WHERE stream = only_line.stream AND place = only_line.place AND tenant = only_line.tenant;
    ELSE
        UPDATE headrace.lines SET waiting = waiting - taken, first_us = later_us[1], first_seq = later_seqs[1]
        WHERE line = only_line.line;
    END IF;
    UPDATE headrace.budgets AS budgets SET running = running + taken
    FROM unnest(budget_tids) AS known (tid) WHERE budgets.ctid = known.tid;
    INSERT INTO headrace.budgets (namespace, name, key, running)
    SELECT in_namespace, name, key, taken FROM unnest(limit_names, limit_keys, budget_tids) AS used (name, key, tid)
    WHERE tid IS NULL;
END
$$;
