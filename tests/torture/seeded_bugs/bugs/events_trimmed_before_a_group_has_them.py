"""Events trimmed before a group has them."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="core/topics/retention.py",
    why="Events are trimmed that a live group has not drawn yet.",
    before="""
        held = [group.low_water for group in groups if is_live(group, now_us)]
        return min([spare, *held])
    """,
    after="""
        held = [group.low_water for group in groups if is_live(group, now_us)]
        return min(spare, max(held, default=spare))
    """,
    tests=(
        contract("test_topic_retention", "test_the_slowest_of_the_live_groups_counts", "sqlite"),
        contract(
            "test_topic_retention", "test_a_group_without_a_member_for_a_day_holds_nothing_any_more", "sqlite"
        ),
    ),
)
