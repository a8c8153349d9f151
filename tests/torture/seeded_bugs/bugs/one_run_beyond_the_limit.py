"""One run beyond the limit."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import Round, SeededBug, contract

BUG = SeededBug(
    file="stores/sql/limits/budgets.py",
    why="One job more runs at once than the limit allows.",
    before="""
        if figures.max_running is not None and self.running >= figures.max_running:
            return False
    """,
    after="""
        if figures.max_running is not None and self.running > figures.max_running:
            return False
    """,
    tests=(contract("test_limits", "test_no_more_run_than_the_limit_allows", "sqlite"),),
    rounds=(Round("sqlite", "limits", "worker-killed"),),
)
