"""Constraints of duplicates stay."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sqlite/verbs/append.py",
    why="Each refused job with limits leaves a row in the file.",
    before="""
        drop_constraints(transaction.connection, numbers.values())
        return False
    """,
    after="""
        return False
    """,
    tests=(contract("test_limit_figures", "test_a_duplicate_leaves_nothing_of_its_constraints", "sqlite"),),
)
