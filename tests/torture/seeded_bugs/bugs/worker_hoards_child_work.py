"""Worker hoards child work."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/intake/queue_reader.py",
    why="A worker claims more jobs for child processes than it has children, and other workers idle.",
    before="""
        return max(0, min(self._processes.free - coming, self._slots.free))
    """,
    after="""
        return max(0, self._slots.free)
    """,
    tests=(
        "tests/integration/processes/test_children.py::test_two_workers_share_the_work_of_their_children",
        "tests/integration/processes/test_children.py::test_a_worker_whose_children_are_busy_goes_on_with_other_work",
    ),
)
