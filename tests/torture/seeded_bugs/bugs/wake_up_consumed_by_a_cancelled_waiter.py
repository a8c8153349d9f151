"""Wake up consumed by a cancelled waiter."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/children/pool.py",
    why=(
        "A job that is cancelled in the moment in which it gets a child keeps that child: the others "
        "wait for ever."
    ),
    before="""
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif not turn.cancelled() and turn.exception() is None:
            self._settle(turn.result())
    """,
    after="""
        if turn in self._waiting:
            self._waiting.remove(turn)
    """,
    tests=(
        "tests/integration/processes/test_child_pool.py::test_a_child_that_came_to_a_cancelled_job_goes_to_the_next",
    ),
)
