"""Waiters not woken by a purge."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/steering/purge.lua",
    why="A caller that waits for a purged job waits until its timeout.",
    before="""
        local _, flags = place_of(id)
    """,
    after="""
        local flags = ''
    """,
    tests=(contract("test_results_and_waiters", "test_a_waiter_is_woken_by_a_purge", "valkey-9.1"),),
)
