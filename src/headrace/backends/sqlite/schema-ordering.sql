-- Adds when members that want their group to be ordered were last seen, and members that do not.

ALTER TABLE headrace_groups ADD COLUMN wanted_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE headrace_groups ADD COLUMN unwanted_us INTEGER NOT NULL DEFAULT 0;
UPDATE headrace_groups SET wanted_us = seen_us WHERE ordered;
