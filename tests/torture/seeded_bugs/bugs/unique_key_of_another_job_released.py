"""Unique key of another job released."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/shared/messages/ending.lua",
    why="The end of a job releases the unique key of the job that holds it by now.",
    before="""
        if text_at(key) == '0 ' .. id then
          redis.call('DEL', key)
        end
    """,
    after="""
        redis.call('DEL', key)
    """,
    tests=(
        contract(
            "test_unique_until",
            "test_until_started_the_second_claim_of_a_message_releases_no_other_key",
            "valkey-9.1",
        ),
        contract(
            "test_unique_until",
            "test_until_started_the_end_of_a_former_owner_releases_no_other_key",
            "valkey-9.1",
        ),
    ),
)
