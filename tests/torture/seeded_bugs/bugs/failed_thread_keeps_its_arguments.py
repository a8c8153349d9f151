"""Failed thread keeps its arguments."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/calling/threads.py",
    why="The arguments of jobs that failed in a thread stay in memory until a full garbage collection.",
    before="""
        error, self._error = self._error, None
    """,
    after="""
        error = self._error
    """,
    tests=(
        "tests/unit/engine/running/test_garbage.py::test_the_arguments_of_a_failed_job_are_freed[thread-False]",
    ),
)
