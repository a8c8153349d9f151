"""Busy child put back as idle."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/children/process.py",
    why=(
        "A job gets the answer of another job: middleware gave the first one up while its child still worked."
    ),
    before="""
        self._call = self._answer = None
        if self.status is Status.BUSY:
            self.kill()
    """,
    after="""
        self._call = self._answer = None
        if self.status is Status.BUSY:
            self.status = Status.IDLE
    """,
    tests=(
        "tests/integration/processes/test_children.py::test_a_job_that_was_given_up_leaves_nothing_to_the_next",
    ),
)
