"""Promotion unbounded on SQLite."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sqlite/verbs/upkeep.py",
    why="200,000 jobs that are due at once hold the write lock for seconds.",
    before="""
        due = sorted(due, key=lambda each: each[:2])[:limit]
    """,
    after="""
        due = sorted(due, key=lambda each: each[:2])
    """,
    tests=(contract("test_promote", "test_the_limit_of_a_promotion_holds_over_all_sources", "sqlite"),),
)
