"""Failed step spoils those beside it."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="stores/sqlite/threads/writer.py",
    why="Of two steps that are written together, one that fails takes the other with it.",
    before="""
        if spoiled.shared or len(steps) == 1:
    """,
    after="""
        if spoiled.shared or steps:
    """,
    tests=(
        "tests/unit/stores/sqlite/test_threads.py::test_a_step_that_fails_does_not_spoil_those_beside_it",
    ),
)
