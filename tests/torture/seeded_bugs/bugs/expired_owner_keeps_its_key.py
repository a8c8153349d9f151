"""Expired owner keeps its key."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sqlite/rows/unique_keys.py",
    why="A job that expired while it waited suppresses every later job with its unique key.",
    before="""
        expired = has_expired(place, expires_us, state, now_us)
    """,
    after="""
        expired = has_expired(place, expires_us, None, now_us)
    """,
    tests=(
        contract(
            "test_unique_expiry",
            "test_an_expired_owner_gives_its_key_to_the_next_message",
            "sqlite-queued-finished",
        ),
    ),
)
