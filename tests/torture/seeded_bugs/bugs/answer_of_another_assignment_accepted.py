"""Answer of another assignment accepted."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/children/process.py",
    why="A child that answers late gives the answer of one job to the next.",
    before="""
        current = self.status is Status.BUSY and message.number == self._number
    """,
    after="""
        current = self.status is Status.BUSY
    """,
    tests=(
        "tests/integration/processes/test_children.py::test_an_answer_to_another_assignment_is_never_accepted",
    ),
)
