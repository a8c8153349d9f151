"""Promotion bounded for each agenda."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/shared/promoting.lua",
    why="Scheduled jobs and retries that are due at once make one step twice as long as it may be.",
    before="""
        while count < limit and bytes > 0 and (due[d] or retry[r]) do
    """,
    after="""
        while due[d] or retry[r] do
    """,
    tests=(
        contract(
            "test_promote",
            "test_the_limit_of_a_promotion_holds_over_scheduled_and_retrying_messages",
            "valkey-9.1",
        ),
    ),
)
