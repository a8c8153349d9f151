"""Answers of a batch forgotten on Redis."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/shared/batch.lua",
    why=(
        "A batch that is repeated after a lost answer says of duplicates and refused jobs that they "
        "were accepted."
    ),
    before="""
        local packed = #answers > 0 and cmsgpack.pack(answers) or ''
    """,
    after="""
        local packed = ''
    """,
    tests=(
        contract("test_producers", "test_a_batch_sent_again_keeps_its_duplicates_and_refusals", "valkey-9.1"),
        contract(
            "test_producers", "test_a_batch_with_unique_keys_sent_again_is_answered_as_before", "valkey-9.1"
        ),
    ),
)
