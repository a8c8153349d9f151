"""Buffered jobs kept at the stop."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/worker/worker.py",
    why="A worker that stops keeps the jobs that it has not begun until its grace is over.",
    before="""
        claims.in_flight.hand_back(running.slots.take_back(claims.readers.may_be_handed_back))
    """,
    after="""

    """,
    tests=("tests/unit/behaviour/worker/test_worker.py::test_buffered_jobs_are_handed_back_at_once",),
)
