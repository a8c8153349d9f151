"""Outcome dropped when the store is away."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import Round, SeededBug

BUG = SeededBug(
    file="engine/settling/settler.py",
    why="An outcome that could not be written at once is forgotten: a finished job runs again.",
    before="""
        except BackendUnavailable:
            self._doubtful = True
            raise
    """,
    after="""
        except BackendUnavailable:
            self._doubtful = True
            del self._in_flight.unwritten[:BATCH]
            raise
    """,
    tests=(
        "tests/unit/engine/settling/test_settler.py::test_a_store_that_was_away_gets_everything_when_it_is_back",
        "tests/unit/engine/settling/test_settler.py::test_after_a_lost_answer_the_verdicts_are_doubtful_and_then_no_more",
    ),
    rounds=(Round("valkey-9.1", "jobs", "server-killed"),),
)
