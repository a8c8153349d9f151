-- Adds the timetable of a declared schedule.

ALTER TABLE headrace_schedules ADD COLUMN timing TEXT NOT NULL DEFAULT '';  -- empty: not known yet
