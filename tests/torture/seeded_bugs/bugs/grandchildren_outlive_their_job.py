"""Grandchildren outlive their job."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/children/process.py",
    why="A program that a job has started goes on beside the retry of the job.",
    before="""
        os.killpg(self.pid, signal.SIGKILL)
    """,
    after="""
        os.kill(self.pid, signal.SIGKILL)
    """,
    tests=(
        "tests/integration/processes/test_children.py::test_what_a_job_has_started_ends_with_it[timeout]",
    ),
)
