"""Promotion too early."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import Round, SeededBug, contract

BUG = SeededBug(
    file="stores/sqlite/statements/upkeep_statements.py",
    why="Beside a job that is due, delayed jobs run up to a minute before their time.",
    before="""
        FROM headrace_messages WHERE stream = ? AND place = ? AND at_us <= ?
        ORDER BY at_us, seq LIMIT ?)
    """,
    after="""
        FROM headrace_messages WHERE stream = ? AND place = ? AND at_us <= ? + 60000000
        ORDER BY at_us, seq LIMIT ?)
    """,
    tests=(
        contract("test_promote", "test_beside_one_that_is_due_none_is_promoted_before_its_time", "sqlite"),
    ),
    rounds=(Round("sqlite", "jobs", "long-reader"),),
)
