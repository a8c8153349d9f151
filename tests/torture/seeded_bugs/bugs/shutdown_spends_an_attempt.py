"""Shutdown spends an attempt."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/outcome_policy.py",
    why="Each deploy uses up a retry of the jobs that it interrupts.",
    before="""
        case "shutdown" | "lost", asyncio.CancelledError() | Abandoned() | ChildDied():
    """,
    after="""
        case "lost", asyncio.CancelledError() | Abandoned() | ChildDied():
    """,
    tests=(
        "tests/unit/behaviour/worker/test_worker.py::test_after_the_grace_a_coroutine_is_cancelled_and_handed_back_at_no_cost",
        "tests/unit/behaviour/worker/test_worker.py::test_what_was_handed_back_is_run_before_everything_else",
    ),
)
