"""Paused schedule fires."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/steering/swap_schedules.lua",
    why="A schedule that was paused a moment ago is fired by a worker that has not heard of it.",
    before="""
        and (stored[3] and '1' or '') == swaps[at + 2]
    """,
    after="""

    """,
    tests=(
        contract("test_schedules", "test_every_value_of_a_record_is_kept_and_compared", "valkey-9.1"),
        contract("test_schedules", "test_a_paused_schedule_does_not_fire", "valkey-9.1"),
    ),
)
