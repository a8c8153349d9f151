"""Unread answer of an ended child lost."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/children/process.py",
    why="The answer of a child that ends right after it counts as a crash.",
    before="""
        if self.status is Status.BUSY:
            self._drain()  # the answer may be still unread
        if self.status is Status.BUSY:
    """,
    after="""
        if self.status is Status.BUSY:
    """,
    tests=(
        "tests/integration/processes/test_child_pool.py::test_the_answer_of_a_child_that_ended_after_it_counts",
    ),
)
