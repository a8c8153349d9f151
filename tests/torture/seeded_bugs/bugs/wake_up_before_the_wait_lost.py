"""Wake up before the wait lost."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/memory/store.py",
    why="A wake-up that comes while no claim waits is lost: a stopping worker waits out its claim.",
    before="""
        def wake(self, consumer: str) -> None:
            self._woken.add(consumer)
    """,
    after="""
        def wake(self, consumer: str) -> None:
    """,
    tests=(
        contract("test_claim", "test_wake_makes_a_waiting_claim_return", "memory-queue"),
        contract("test_claim", "test_wake_makes_the_next_claim_return_when_none_is_waiting", "memory"),
    ),
)
