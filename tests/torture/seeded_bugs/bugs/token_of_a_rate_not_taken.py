"""Token of a rate not taken."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sql/limits/budgets.py",
    why="A rate limits nothing.",
    before="""
        self.running += count
        self._spend(count, now_us)
    """,
    after="""
        self.running += count
    """,
    tests=(
        contract("test_rates", "test_starts_are_evenly_spaced", "sqlite"),
        contract("test_limit_machine", "test_a_store_keeps_limits_as_the_model_does", "sqlite-few"),
    ),
)
