-- Adds by which timetable a declared schedule is fired.

ALTER TABLE headrace_schedules ADD COLUMN timing TEXT NOT NULL DEFAULT '';  -- empty: nobody has said yet
