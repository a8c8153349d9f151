"""Late success ends another job."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/settle/finish.lua",
    why="A late success ends a later job that got the same id: that job never runs.",
    before="""
        if message and (get(message, 'o') or place) == origin then
          return lane, entry
        end
    """,
    after="""
        if message then
          return lane, entry
        end
    """,
    tests=(
        contract(
            "test_fences", "test_a_success_does_not_settle_a_later_message_of_the_same_id", "valkey-9.1"
        ),
        contract(
            "test_group_admin", "test_a_late_claim_from_before_a_reset_cannot_end_the_new_round", "valkey-9.1"
        ),
    ),
)
