"""Lost lease goes unnoticed."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/settling/claim_control.py",
    why="A worker that has lost a job goes on with it beside the worker that has it now.",
    before="""
        if run.interruption != "lost":  # each renewal reports it until the handler has ended
            run.interrupt("lost")
    """,
    after="""
        if run.interruption != "lost":  # each renewal reports it until the handler has ended
            run.interruption = "lost"
    """,
    tests=(
        "tests/unit/behaviour/worker/test_worker.py::test_a_lost_lease_is_announced_once_and_the_handler_cancelled",
    ),
)
