-- Renames a table and a column. The old control messages can go: workers read the current state with their
-- next heartbeat.

ALTER TABLE headrace_orders RENAME TO headrace_notices;
DELETE FROM headrace_notices;
ALTER TABLE headrace_deferred_keys RENAME COLUMN hungry TO drawable;
