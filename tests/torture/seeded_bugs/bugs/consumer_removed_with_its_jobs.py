"""Consumer removed with its jobs."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/upkeep/leave.lua",
    why="A worker that leaves takes the jobs that it could not hand back with it: they are lost.",
    before="""
        if #rows == 0 then
    """,
    after="""
        if #rows < 2 then
    """,
    tests=(
        contract("test_group_admin", "test_a_worker_that_leaves_loses_nothing_that_it_holds", "valkey-9.1"),
    ),
)
