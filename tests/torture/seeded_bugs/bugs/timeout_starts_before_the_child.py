"""Timeout starts before the child."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/executor.py",
    why="Jobs that wait for a free child time out before their function begins.",
    before="""
        self._deadlines.pause(run)  # until the function begins in the child
    """,
    after="""

    """,
    tests=(
        "tests/integration/processes/test_children.py::test_the_timeout_does_not_count_while_a_job_waits_for_its_child",
    ),
)
