"""Recovery waits for a blocked loop."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/upkeep/recovery.py",
    why=("A worker whose event loop is blocked again and again puts off the recovery of lost jobs for all."),
    before="""
        return gap > LONG_GAP * lease and self._pulse.stood_still(self._reached_us)
    """,
    after="""
        return gap > LONG_GAP * lease
    """,
    tests=("tests/unit/engine/upkeep/test_duties.py::test_a_blocked_event_loop_is_no_outage",),
)
