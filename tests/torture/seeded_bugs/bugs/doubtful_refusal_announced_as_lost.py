"""Doubtful refusal announced as lost."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/settling/settler.py",
    why="After a lost answer, a settlement that was written is announced as a lost lease.",
    before="""
        except BackendUnavailable:
            self._doubtful = True
            raise
    """,
    after="""
        except BackendUnavailable:
            raise
    """,
    tests=(
        "tests/unit/engine/settling/test_settler.py::test_after_a_lost_answer_the_verdicts_are_doubtful_and_then_no_more",
    ),
)
