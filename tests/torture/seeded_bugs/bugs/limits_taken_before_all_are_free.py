"""Limits taken before all are free."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/memory/limits.py",
    why="A job that waits for one of its limits holds a slot of the others for good.",
    before="""
        for state in states:
            if not self._is_free(state, now_us):
                return state
        for state in states:
            state.running += 1
            self._spend(state, 1, now_us)
    """,
    after="""
        for state in states:
            if not self._is_free(state, now_us):
                return state
            state.running += 1
            self._spend(state, 1, now_us)
    """,
    tests=(
        contract("test_limits", "test_a_message_takes_all_of_its_limits_or_none", "memory"),
        contract("test_limit_machine", "test_a_store_keeps_limits_as_the_model_does", "memory-few"),
    ),
)
