"""Replay keeps old crashes."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/steering/replay.lua",
    why="A replayed dead letter of crashes is dead again at its first failure.",
    before="""
        for _, name in ipairs({ 's', 'r', 'f', 'e' }) do
    """,
    after="""
        for _, name in ipairs({ 'r', 'f', 'e' }) do
    """,
    tests=(
        contract("test_dead_letters", "test_a_replayed_message_has_a_fresh_state", "valkey-9.1"),
        contract(
            "test_dead_letters", "test_a_replayed_message_may_crash_as_often_as_a_new_one", "valkey-9.1"
        ),
    ),
)
