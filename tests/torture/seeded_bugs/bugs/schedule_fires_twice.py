"""Schedule fires twice."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import Round, SeededBug, contract

BUG = SeededBug(
    file="core/schedules/schedule_record.py",
    why="Two workers that see the same moment both fire it.",
    before="""
        if stored != self.expected:
            return True
    """,
    after="""
        if (stored is None) != (self.expected is None):
            return True
    """,
    tests=(
        contract("test_schedules", "test_every_value_of_a_record_is_kept_and_compared", "memory"),
        contract("test_schedules", "test_what_workers_do_and_what_is_refused_is_not_announced", "memory"),
    ),
    rounds=(Round("sqlite", "jobs", "long-reader"),),
)
