"""Topic trimmed above deferred keys."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/shared/topics/drawing.lua",
    why=("Events of a stuck key that an ordered group has passed over are trimmed before it handles them."),
    before="""
        return math.min(group.position or 0, group.low and group.low - 1 or math.huge)
    """,
    after="""
        return group.position or 0
    """,
    tests=(
        contract("test_group_stuck_keys", "test_what_was_passed_over_is_kept_for_the_group", "valkey-9.1"),
    ),
)
