"""Answers of a batch forgotten on SQLite."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sqlite/rows/producers.py",
    why=(
        "A batch that is repeated after a lost answer says of duplicates and refused jobs that they "
        "were accepted."
    ),
    before="""
        stored = None if complete else _encode(answers)
    """,
    after="""
        stored = None
    """,
    tests=(
        contract("test_producers", "test_a_batch_sent_again_keeps_its_duplicates_and_refusals", "sqlite"),
        contract(
            "test_producers", "test_a_batch_with_unique_keys_sent_again_is_answered_as_before", "sqlite"
        ),
    ),
)
