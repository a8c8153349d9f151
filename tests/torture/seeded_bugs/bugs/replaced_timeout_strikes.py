"""Replaced timeout strikes."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/deadlines.py",
    why="A timeout that was replaced by a later one strikes all the same.",
    before="""
        if not run.ended and run.ends_at <= now:
            self._time_out(run)
    """,
    after="""
        if not run.ended:
            self._time_out(run)
    """,
    tests=("tests/unit/engine/running/test_deadlines.py::test_a_later_timeout_replaces_an_earlier_one",),
)
