"""Reset group runs events twice."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/shared/topics/drawing.lua",
    why="A group that is set back handles the events twice that it has in its lanes.",
    before="""
        if value and is_there(group, ids[index], value) then
    """,
    after="""
        if value == '' then
    """,
    tests=(
        contract("test_group_admin", "test_what_a_group_has_is_passed_over_after_a_reset", "valkey-9.1"),
        contract(
            "test_group_admin",
            "test_what_runs_in_an_ordered_group_comes_again_in_its_turn_after_a_reset",
            "valkey-9.1",
        ),
    ),
)
