"""Recovery does not wait after an outage."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/upkeep/overdue.lua",
    why="After an outage the first worker that is back takes the jobs of all others.",
    before="""
        if after_outage or (run ~= '' and meta[2] and meta[2] ~= run) then
          patient = now + lease
        end
    """,
    after="""
        if run ~= '' and meta[2] and meta[2] ~= run then
          patient = now + lease
        end
    """,
    tests=(
        contract("test_reclaim", "test_after_an_outage_no_worker_takes_anything_for_one_lease", "valkey-9.1"),
    ),
)
