"""Cancellation of one job reaches the next."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/executor.py",
    why="The job that follows a cancelled job in the same slot is cancelled, too.",
    before="""
        while task.cancelling():
            task.uncancel()
    """,
    after="""
        if not task.cancelling():
            return
        task.uncancel()
    """,
    tests=(
        "tests/unit/behaviour/worker/test_handlers_as_tasks.py::test_cancelling_itself_several_times_and_returning_after_a_suspension[asyncio]",
    ),
)
