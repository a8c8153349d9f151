-- Adds streams that are split into parts.

ALTER TABLE headrace_streams ADD COLUMN layout BLOB;                        -- NULL: it is whole
ALTER TABLE headrace_streams ADD COLUMN sealed INTEGER NOT NULL DEFAULT 0;  -- nothing is appended any more
