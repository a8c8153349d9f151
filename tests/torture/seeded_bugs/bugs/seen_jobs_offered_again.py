"""Seen jobs offered again."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="stores/redis/lua/claim/unseen.lua",
    why="After a read whose answer was lost, a worker begins the jobs again that it already runs.",
    before="""
        local start = seen == '' and '-' or '(' .. seen
    """,
    after="""
        local start = '-'
    """,
    tests=(
        "tests/integration/redis/test_backend.py::test_what_a_lost_claim_took_is_offered_to_the_same_consumer_again[valkey-9.1]",
        "tests/integration/redis/test_backend.py::test_what_was_seen_before_is_not_offered_again[valkey-9.1]",
    ),
)
