-- Version 8: what no step could read or count with is refused when it is written, by whatever program. One such row would
-- stop the claims of all queues with limits. (NOT VALID: rows that are there are not looked at.)

ALTER TABLE headrace.limits
    ADD CHECK (jsonb_typeof(declared::jsonb) = 'object') NOT VALID,
    ADD CHECK (jsonb_typeof(override::jsonb) = 'object') NOT VALID;

-- [[["limit","key"],...],"tenant"] with no blanks between (core/messages/constraints.py). In a TEXT stand no control
-- characters. Its escapes are those of quotes, of backslashes and of control characters, but for zero.
ALTER TABLE headrace.constraints ADD CHECK (content ~ replace(
    '^\[\[(?:\["TEXT","TEXT"\](?:,\["TEXT","TEXT"\])*)?\],"TEXT"\]$',
    'TEXT', '(?:[^"\\\x01-\x1f]|\\["\\/bfnrt]|\\u00(?:0[1-9a-f]|1[0-9a-f]))*')) NOT VALID;

-- Far from the bounds of the type, since steps add to these.
ALTER TABLE headrace.lines
    ADD CHECK (abs(waiting) < 1::bigint << 60 AND abs(first_us) < 1::bigint << 60 AND abs(first_seq) < 1::bigint << 60)
    NOT VALID;

ALTER TABLE headrace.tenants ADD CHECK (abs(turn) < 1::bigint << 60) NOT VALID;

ALTER TABLE headrace.budgets
    ADD CHECK (abs(running) < 1::bigint << 60 AND abs(next_us) < 1::bigint << 60 AND abs(timer_us) < 1::bigint << 60)
    NOT VALID;
