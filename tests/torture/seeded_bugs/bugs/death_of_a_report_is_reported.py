"""Death of a report is reported."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/settling/death_calls.py",
    why="A task for deaths that fails is called for its own death, again and again.",
    before="""
        if wanted is None or task in self._silent:
    """,
    after="""
        if wanted is None:
    """,
    tests=("tests/unit/behaviour/jobs/test_on_dead.py::test_the_death_of_a_report_is_not_reported",),
)
