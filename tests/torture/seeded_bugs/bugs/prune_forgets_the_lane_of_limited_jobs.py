"""Prune forgets the lane of limited jobs."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/upkeep/forget_consumers.lua",
    why="Limited jobs of a worker that died are not recovered.",
    before="""
      elseif length_of(lane) > 0 or (lane == HELD and has_lines) then
    """,
    after="""
      elseif length_of(lane) > 0 then
    """,
    tests=(
        contract(
            "test_limit_figures",
            "test_what_waits_during_a_prune_is_counted_and_recovered_later",
            "valkey-9.1",
        ),
    ),
)
