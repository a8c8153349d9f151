"""Success ends a job of another file."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="stores/sql/settling.py",
    why="After the file was replaced, a success ends whichever job has the same row number now.",
    before="""
        if subject is None or subject.place > RUNNING or subject.id != settlement.claim.id:
    """,
    after="""
        if subject is None or subject.place > RUNNING:
    """,
    tests=("tests/integration/sqlite/test_faults.py::test_a_deleted_file_is_noticed_and_made_anew",),
)
