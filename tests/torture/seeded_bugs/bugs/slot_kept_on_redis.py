"""Slot kept on Redis."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/shared/limits/slots.lua",
    why="A limited job that runs again or dies keeps its slot.",
    before="""
        if id and (not place or place == lane .. entry) then
    """,
    after="""
        if unstarted and id and (not place or place == lane .. entry) then
    """,
    tests=(
        contract("test_limits", "test_every_settlement_gives_the_slot_back", "valkey-9.1-Retry0"),
        contract("test_limits", "test_every_settlement_gives_the_slot_back", "valkey-9.1-Dead"),
    ),
)
