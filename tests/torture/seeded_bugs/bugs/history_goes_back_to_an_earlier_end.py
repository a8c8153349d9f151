"""The history goes back to an earlier end."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/postgres/statements/history_statements.py",
    why="A late write shows a job that was replayed and has succeeded as dead.",
    before="""
        WHERE excluded.ended_us >= history.ended_us
    """,
    after="""
        WHERE excluded.ended_us <> history.ended_us
    """,
    tests=(contract("test_history", "test_an_earlier_end_of_an_id_changes_nothing", "postgresql"),),
)
