-- Adds the data of ordered groups: when members that want order were last seen, and members that do not
-- want it; up to which number a group may draw events a second time after a reset; and the deferred keys.

ALTER TABLE headrace_groups ADD COLUMN wanted_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE headrace_groups ADD COLUMN unwanted_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE headrace_groups ADD COLUMN again INTEGER NOT NULL DEFAULT 0;
UPDATE headrace_groups SET wanted_us = seen_us WHERE ordered;

CREATE TABLE headrace_deferred_keys (
    stream INTEGER NOT NULL,                 -- the group's
    key    TEXT NOT NULL,
    number INTEGER NOT NULL,                 -- from this number on, no event of the key was drawn
    passed INTEGER NOT NULL,                 -- how many of these events are before the group's position
    hungry INTEGER NOT NULL,                 -- more of it can be drawn
    PRIMARY KEY (stream, key)
) STRICT, WITHOUT ROWID;
