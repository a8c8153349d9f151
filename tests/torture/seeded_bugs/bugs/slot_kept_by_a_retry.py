"""Slot kept by a retry."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/memory/streams/stream_state.py",
    why="Each retry of a limited job keeps its slot. Soon no job of the limit runs any more.",
    before="""
        if entry is not None:
            self._release(entry, now_us, unstarted=type(outcome) is Released and outcome.unstarted)
    """,
    after="""
        if entry is not None and type(outcome) is not Retry:
            self._release(entry, now_us, unstarted=type(outcome) is Released and outcome.unstarted)
    """,
    tests=(
        contract("test_limits", "test_every_settlement_gives_the_slot_back", "memory-Retry0"),
        contract("test_limit_machine", "test_a_store_keeps_limits_as_the_model_does", "memory-few"),
    ),
)
