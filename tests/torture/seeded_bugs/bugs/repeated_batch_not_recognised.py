"""Repeated batch not recognised."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/append/append_one.lua",
    why="A single job whose answer was lost is stored twice.",
    before="""
        if known[2] or last and last >= number then
    """,
    after="""
        if known[2] or last and last > number .. ':' then
    """,
    tests=(
        contract(
            "test_fresh", "test_one_alone_that_is_sent_again_is_recognised_for_ten_minutes", "valkey-9.1"
        ),
    ),
)
