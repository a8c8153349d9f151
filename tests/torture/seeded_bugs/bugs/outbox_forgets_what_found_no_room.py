"""An outbox forgets what found no room."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/postgres/rows/outbox_table.py",
    why="A job that a full queue refuses is neither stored nor kept for later: it is lost.",
    before="""
        await statements.change(self.forget, ([seq for seq, _, _ in rows if seq not in stay],))
    """,
    after="""
        await statements.change(self.forget, ([seq for seq, _, _ in rows],))
    """,
    tests=(contract("test_outbox", "test_entries_that_are_kept_come_first_in_the_next_batch", "postgresql"),),
)
