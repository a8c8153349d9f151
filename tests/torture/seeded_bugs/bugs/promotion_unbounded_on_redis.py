"""Promotion unbounded on Redis."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/shared/promoting.lua",
    why="200,000 jobs that are due at once block the server for most of a second.",
    before="""
        local limit, bytes, count = tonumber(ARGV[5]), tonumber(ARGV[6]), 0
    """,
    after="""
        local limit, bytes, count = 1000000000, math.huge, 0
    """,
    tests=(
        contract("test_promote", "test_a_promotion_takes_no_more_than_its_limit", "valkey-9.1"),
        contract("test_promote", "test_the_limit_of_a_promotion_holds_over_all_sources", "valkey-9.1"),
    ),
)
