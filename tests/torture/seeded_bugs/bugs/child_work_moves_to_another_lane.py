"""Child work moves to another lane."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sqlite/statements/message_statements.py",
    why=("A retried job for a child process is handed to workers that have no free child, again and again."),
    before="""
        iif(child, 8, 0) + iif(constraints IS NULL, 0, 32), 0),
    """,
    after="""
        iif(constraints IS NULL, 0, 32), 0),
    """,
    tests=(
        contract("test_children", "test_handed_back_it_is_child_work", "sqlite"),
        contract("test_children", "test_retried_at_once_it_is_child_work", "sqlite"),
    ),
)
