"""Line not opened after a settlement."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/memory/limits.py",
    why="Jobs that wait for a limit wait on when a slot is free.",
    before="""
        if unstarted:
            self._spend(state, -1, now_us)
        self._offer(state, now_us)
    """,
    after="""
        if unstarted:
            self._spend(state, -1, now_us)
            self._offer(state, now_us)
    """,
    tests=(
        contract("test_limits", "test_a_slot_that_comes_back_goes_to_the_next", "memory"),
        contract("test_limit_machine", "test_a_store_keeps_limits_as_the_model_does", "memory-few"),
    ),
)
