"""The history outlives a move."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sqlite/statements/moving_statements.py",
    why="A new queue in the old file shows the ended jobs and the arguments of another one.",
    before="""
        FORGET_SOME = (FORGET_MESSAGES, FORGET_EVENTS, FORGET_HISTORY)
    """,
    after="""
        FORGET_SOME = (FORGET_MESSAGES, FORGET_EVENTS)
    """,
    tests=(contract("test_moving", "test_the_history_does_not_outlive_the_move", "sqlite"),),
)
