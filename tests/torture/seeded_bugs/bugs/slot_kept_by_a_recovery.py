"""Slot kept by a recovery."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/memory/streams/stream_state.py",
    why="The slots of a worker that died never come back.",
    before="""
        for token, entry in overdue:
            del self.running[token]
            self._release(entry, now_us)
    """,
    after="""
        for token, _ in overdue:
            del self.running[token]
    """,
    tests=(
        contract("test_limits", "test_a_lost_lease_gives_the_slot_back", "memory"),
        contract("test_limit_machine", "test_a_store_keeps_limits_as_the_model_does", "memory-few"),
    ),
)
