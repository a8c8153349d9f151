"""Waiter asks only once."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="stores/redis/verbs/announcements.py",
    why="A caller that waits for a result while the connection breaks waits until its timeout.",
    before="""
        wire = await self._link.connected()
        self._ask_again()
    """,
    after="""
        wire = await self._link.connected()
    """,
    tests=(
        "tests/integration/redis/test_backend.py::test_an_end_that_was_announced_to_nobody_is_noticed[valkey-9.1]",
    ),
)
