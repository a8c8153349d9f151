"""Suspects run together."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/intake/queue_reader.py",
    why="Two jobs that crash their worker run beside each other, so both are blamed for each crash.",
    before="""
        suspects = 1 if free > 0 and not self._blocking_suspects() else 0
    """,
    after="""
        suspects = 1
    """,
    tests=(
        "tests/unit/engine/intake/test_queue_reader.py::test_a_suspect_is_taken_only_when_none_is_held",
        "tests/unit/engine/intake/test_queue_reader.py::test_no_suspect_is_claimed_ahead_of_the_free_slots",
    ),
)
