-- Adds what ordered groups remember: when members that want order were last seen, and members that do not; up to
-- which number events may be met a second time, since the group was reset; and keys that are deferred.

ALTER TABLE headrace_groups ADD COLUMN wanted_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE headrace_groups ADD COLUMN unwanted_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE headrace_groups ADD COLUMN again INTEGER NOT NULL DEFAULT 0;
UPDATE headrace_groups SET wanted_us = seen_us WHERE ordered;

CREATE TABLE headrace_deferred_keys (
    stream INTEGER NOT NULL,                 -- the group's
    key    TEXT NOT NULL,
    number INTEGER NOT NULL,                 -- of its events from here on none was drawn
    passed INTEGER NOT NULL,                 -- how many of these lie before the group's position
    hungry INTEGER NOT NULL,                 -- more of it can be drawn
    PRIMARY KEY (stream, key)
) STRICT, WITHOUT ROWID;
