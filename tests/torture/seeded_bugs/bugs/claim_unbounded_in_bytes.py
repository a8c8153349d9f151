"""Claim unbounded in bytes."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sqlite/verbs/claim.py",
    why="One claim of many large jobs brings hundreds of megabytes.",
    before="""
        if chosen and size > CLAIM_BYTES:
            break
    """,
    after="""
        if chosen and len(chosen) >= len(found):
            break
    """,
    tests=(contract("test_claim", "test_a_claim_is_bounded_in_bytes_whatever_came_before", "sqlite"),),
)
