"""One refused outcome stops the others."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/settling/settler.py",
    why="An outcome that the store refuses stops the outcomes of all other jobs.",
    before="""
        if _is_away(error):
            raise
        await self._write_apart(batch)
    """,
    after="""
        raise error
    """,
    tests=(
        "tests/unit/engine/settling/test_settler.py::test_one_that_cannot_be_written_is_given_up_and_the_others_are_written",
        "tests/unit/engine/settling/test_settler.py::test_one_that_is_refused_in_every_way_is_given_up_as_soon_as_another_is_written",
    ),
)
