-- Version 10: a duplicate in a transaction of a user holds no lock.

-- Appends one message for `append_within`, as before (05-limits.sql), but for the look at its unique key.
CREATE OR REPLACE FUNCTION headrace.append_one_within(
    in_namespace text, message jsonb, in_body bytea, uncounted_stream integer, uncounted bigint,
    OUT verdict text, OUT stored_id text, OUT number integer, OUT more_queued integer, OUT more_scheduled integer,
    OUT more_retrying integer
) LANGUAGE plpgsql AS $$
DECLARE
    message_id text := message ->> 'id';
    of_topic boolean := message ->> 'kind' = 'topic';
    wanted_key text := message ->> 'unique_key';
    at bigint := headrace.now_us((message ->> 'offset_us')::bigint);
    due bigint := greatest((message ->> 'due_us')::bigint, at + (message ->> 'delay_us')::bigint);
    is_limited boolean := message ->> 'constraints' IS NOT NULL;
    is_later boolean := of_topic OR is_limited OR due > at;
    owner record;
    waiting bigint;
    gone smallint;
    locking boolean;
    is_new boolean;
    replaces boolean := coalesce(message ->> 'on_duplicate' = 'replace', false);
    replaced record; -- the waiting owner of the key that this message replaces
BEGIN
    SELECT NULL::smallint AS place, false AS awaited INTO replaced;
    number := headrace.open_stream(in_namespace, message ->> 'kind', message ->> 'name', true);
    verdict := 'duplicate';
    stored_id := message_id;
    IF NOT of_topic THEN
        DELETE FROM headrace.messages
        WHERE stream + 0 = number AND id = message_id AND place + 0 >= 11 AND at_us <= at;
        IF EXISTS (SELECT FROM headrace.messages WHERE stream + 0 = number AND id = message_id) THEN
            RETURN;
        END IF;
    END IF;
    -- The end of a job that holds the key must not wait for this transaction. So the first look takes no lock, and the
    -- subtransaction of the second one gives its lock back when another transaction has taken the key meanwhile. (Only a key
    -- that has a row already costs a number of a subtransaction.)
    FOREACH locking IN ARRAY CASE WHEN wanted_key IS NULL THEN '{}' ELSE '{false,true}' END::boolean[] LOOP
        IF locking THEN
            INSERT INTO headrace.unique_keys (stream, key, id) VALUES (number, wanted_key, '')
            ON CONFLICT DO NOTHING;
            is_new := FOUND;
        END IF;
        BEGIN
            IF locking AND NOT is_new THEN
                -- This locks the row of the key, or adds it again if another transaction has removed it meanwhile.
                INSERT INTO headrace.unique_keys (stream, key, id) VALUES (number, wanted_key, '')
                ON CONFLICT (stream, key) DO UPDATE SET id = excluded.id WHERE false;
            END IF;
            gone := NULL;
            SELECT keys.id, keys.expires_us, held.place, held.unique_key = wanted_key
                    AND held.place < 10 AND held.place <> 7 AND held.expires_us BETWEEN 1 AND at
                    AND NOT held.begun AS has_expired,
                    coalesce(held.constraints IS NOT NULL OR held.staged IS NOT NULL, false) AS is_limited
                INTO owner
            FROM headrace.unique_keys AS keys LEFT JOIN headrace.messages AS held
                ON held.stream + 0 = keys.stream AND held.id = keys.id AND NOT of_topic
            WHERE keys.stream = number AND keys.key = wanted_key;
            IF owner.id <> '' AND coalesce(owner.expires_us > at, true) THEN
                IF owner.has_expired AND owner.is_limited THEN
                    NULL; -- it loses its key, and the worker that claims it ends it
                ELSIF owner.has_expired THEN
                    gone := owner.place;
                ELSIF replaces THEN
                    CONTINUE WHEN NOT locking;
                    -- An owner that another transaction has locked is about to start or to end. One that waits in a line
                    -- cannot leave it without the lock of lines. Then this message is a job of its own.
                    SELECT held.place, held.awaited INTO replaced FROM headrace.messages AS held
                    WHERE held.stream + 0 = number AND held.id = owner.id AND held.unique_key = wanted_key
                        AND held.place <= 9 AND held.place <> 7 AND held.constraints IS NULL
                    FOR UPDATE SKIP LOCKED;
                    gone := replaced.place;
                ELSIF owner.expires_us IS NOT NULL OR owner.place <= 9 THEN
                    RAISE EXCEPTION USING ERRCODE = 'HR003', MESSAGE = 'the key is taken';
                END IF;
            END IF;
        EXCEPTION WHEN SQLSTATE 'HR003' THEN
            stored_id := owner.id;
            RETURN;
        END;
    END LOOP;
    IF message ->> 'max_waiting' IS NOT NULL THEN
        SELECT coalesce(sum(queued) + sum(scheduled) + sum(parked), 0) INTO waiting
        FROM headrace.counts WHERE stream = number;
        waiting := waiting + CASE WHEN number = uncounted_stream THEN uncounted ELSE 0 END;
        IF waiting - (CASE WHEN coalesce(gone, 9) = 9 THEN 0 ELSE 1 END) >= (message ->> 'max_waiting')::bigint THEN
            DELETE FROM headrace.unique_keys WHERE stream = number AND key = wanted_key AND id = '';
            verdict := 'full';
            RETURN;
        END IF;
    END IF;
    IF replaced.place IS NOT NULL THEN
        DELETE FROM headrace.messages WHERE stream + 0 = number AND id = owner.id;
        message_id := owner.id;
        stored_id := owner.id;
    ELSIF gone IS NOT NULL THEN
        UPDATE headrace.messages
        SET place = 13, at_us = at + (message ->> 'expired_ttl_us')::bigint, since_us = at, body = NULL
        WHERE stream + 0 = number AND id = owner.id;
    END IF;
    IF (message ->> 'child')::boolean THEN
        UPDATE headrace.streams SET held_children = true WHERE stream = number AND NOT held_children;
    END IF;
    IF is_limited THEN
        UPDATE headrace.streams SET held_lines = true WHERE stream = number AND NOT held_lines;
    END IF;
    INSERT INTO headrace.messages
        (stream, id, task, place, at_us, since_us, lane, priority, expires_us, child, unique_key, unique_until, body,
         staged, order_key, awaited)
    SELECT number, message_id, message ->> 'task',
        CASE WHEN is_later THEN 8 ELSE 4 + given - CASE WHEN (message ->> 'child')::boolean THEN 8 ELSE 0 END END,
        CASE WHEN is_later THEN due ELSE at END, at, 4 + given, given,
        CASE WHEN (message ->> 'lifetime_us')::bigint > 0 THEN due + (message ->> 'lifetime_us')::bigint ELSE 0 END,
        (message ->> 'child')::boolean,
        CASE WHEN of_topic THEN nullif(message ->> 'key', '') ELSE wanted_key END,
        CASE WHEN of_topic THEN NULL ELSE message ->> 'unique_until' END, in_body,
        message ->> 'constraints', CASE WHEN is_limited THEN E'\norder:' || nullif(message ->> 'key', '') END,
        coalesce(replaced.awaited, false)
    FROM (SELECT CASE WHEN of_topic THEN 1 ELSE (message ->> 'priority')::smallint END AS given) AS priorities
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN -- another transaction has added it, and committed while this one waited
        DELETE FROM headrace.unique_keys WHERE stream = number AND key = wanted_key AND id = '';
        RETURN;
    END IF;
    IF wanted_key IS NOT NULL THEN
        UPDATE headrace.unique_keys SET id = message_id, expires_us = CASE
            WHEN message ->> 'unique_until' = 'elapsed' THEN at + (message ->> 'window_us')::bigint END
        WHERE stream = number AND key = wanted_key;
    END IF;
    more_queued := (CASE WHEN is_later THEN 0 ELSE 1 END) - (CASE WHEN gone < 7 THEN 1 ELSE 0 END);
    more_scheduled := (CASE WHEN is_later THEN 1 ELSE 0 END) - (CASE WHEN gone = 8 THEN 1 ELSE 0 END);
    more_retrying := - (CASE WHEN gone = 9 THEN 1 ELSE 0 END);
    PERFORM pg_notify(message ->> 'channel', message ->> (CASE WHEN is_later THEN 'due' ELSE 'ready' END));
    verdict := CASE WHEN replaced.place IS NULL THEN 'accepted' ELSE 'replaced' END;
END
$$;
