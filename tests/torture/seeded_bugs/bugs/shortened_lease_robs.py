"""Shortened lease robs."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/upkeep/overdue.lua",
    why="A worker that asks for a shorter lease takes jobs from workers that renew by the longer one.",
    before="""
        if now < last and last <= now + longer then
          lease = math.max(lease, longer)
        end
    """,
    after="""
        if now < last and last <= now + longer then
          lease = math.min(lease, longer)
        end
    """,
    tests=(
        contract(
            "test_leases", "test_a_shortened_lease_robs_nobody_who_holds_by_the_longer_one", "valkey-9.1"
        ),
        contract("test_leases", "test_shortened_twice_the_longest_holds_to_its_end", "valkey-9.1"),
    ),
)
