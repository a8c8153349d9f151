"""Slot counted twice."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sql/limits/budgets.py",
    why="A limit of ten lets five jobs run, and then ever fewer.",
    before="""
        self.running += count
        self._spend(count, now_us)
    """,
    after="""
        self.running += 2 * count
        self._spend(count, now_us)
    """,
    tests=(
        contract("test_limits", "test_no_more_run_than_the_limit_allows", "sqlite"),
        contract("test_limit_figures", "test_nothing_is_left_when_all_is_done", "sqlite"),
    ),
)
