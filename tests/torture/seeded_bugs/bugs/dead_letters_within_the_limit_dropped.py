"""Dead letters within the limit dropped."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/upkeep/dead_dropping.py",
    why="A queue that keeps a number of dead letters drops some of them, too.",
    before="""
        return [each.id for each in oldest[:beyond]]
    """,
    after="""
        return [each.id for each in oldest[: beyond + 1]]
    """,
    tests=("tests/unit/behaviour/jobs/test_dead_dropping.py::test_the_oldest_are_dropped",),
)
