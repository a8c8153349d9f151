"""Schedule catches up what it skips."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="core/schedules/schedule.py",
    why="After a stop of a week, a schedule that skips missed moments fires the last of them late.",
    before="""
        if timing.catch_up == "skip" and _is_missed(timing, latest, now_us):
    """,
    after="""
        if timing.catch_up == "skip" and _is_missed(timing, last_us, last_us):
    """,
    tests=(
        "tests/unit/core/test_schedule.py::test_after_downtime[skip-131-fired0]",
        "tests/unit/core/test_schedule.py::test_a_minute_late_is_not_missed[61-False]",
    ),
)
