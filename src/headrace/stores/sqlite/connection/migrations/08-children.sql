-- Adds work for child processes: place -6 to -2 while it is queued (stores/sql/lanes.py).

ALTER TABLE headrace_messages ADD COLUMN child INTEGER NOT NULL DEFAULT 0;          -- it is child work
ALTER TABLE headrace_streams ADD COLUMN held_children INTEGER NOT NULL DEFAULT 0;   -- it ever had child work
