"""No fence on Redis."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/shared/messages/place.lua",
    why=(
        "A worker that stood still for longer than its lease retries or buries a job that another "
        "worker runs now."
    ),
    before="""
        local place, flags = place_of(id)
        if place ~= lane .. entry then
          return false
        end
        local row = holder(lane, entry)
        return row and row[2] == consumer, flags
    """,
    after="""
        local place, flags = place_of(id)
        return place ~= nil, flags
    """,
    tests=(
        contract(
            "test_fences",
            "test_an_outcome_is_lost_when_another_holds_the_message",
            "valkey-9.1-cancelled-queue",
        ),
        contract(
            "test_fences", "test_an_outcome_is_lost_when_the_message_was_taken_away", "valkey-9.1-cancelled"
        ),
    ),
)
