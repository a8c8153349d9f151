"""Event dropped when its receipt was lost."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/intake/group_reader.py",
    why="Events that are acknowledged on receipt are lost when the answer of the store is lost.",
    before="""
        ours = (Verdict.KEPT, Verdict.GONE) if self._doubtful else (Verdict.KEPT,)
    """,
    after="""
        ours = (Verdict.KEPT,)
    """,
    tests=("tests/unit/behaviour/events/test_delivery.py::test_receipts_are_written_when_the_store_is_back",),
)
