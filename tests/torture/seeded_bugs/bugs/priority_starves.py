"""Priority starves."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="core/rules/lanes.py",
    why="While high priority never runs dry, low priority never runs.",
    before="""
        return turn % BOTTOM_TURN == 0
    """,
    after="""
        return turn < 0
    """,
    tests=(
        contract("test_lanes", "test_a_lower_priority_is_not_starved_by_a_full_higher_one", "memory-1"),
        contract("test_lanes", "test_of_twenty_claims_about_two_start_from_the_bottom", "memory"),
    ),
)
