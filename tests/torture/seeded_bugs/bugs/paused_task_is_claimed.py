"""Paused task is claimed."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sql/limits/budgets.py",
    why="The jobs of a paused task run all the same.",
    before="""
        if figures.max_running is not None and self.running >= figures.max_running:
            return False
    """,
    after="""
        if figures.max_running and self.running >= figures.max_running:
            return False
    """,
    tests=(
        contract(
            "test_other_constraints", "test_it_waits_while_nothing_may_run_and_names_the_limit", "sqlite"
        ),
        contract("test_limit_machine", "test_a_store_keeps_limits_as_the_model_does", "sqlite-few"),
    ),
)
