"""Recovery scan starts anew."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/upkeep/overdue.lua",
    why=(
        "Each scan for lost jobs begins at 0-0 and looks at a few: behind many living jobs the lost "
        "ones are never found."
    ),
    before="""
        local rows = redis.pcall('XPENDING', lane_key(lane), GROUP, 'IDLE', idle, start, stop, limit - #found)
        for _, row in ipairs(rows) do
          after = row[1]
          note(row[1], row[2])
    """,
    after="""
        local rows = redis.pcall('XPENDING', lane_key(lane), GROUP, '-', '+', limit - #found)
        for _, row in ipairs(rows) do
          after = row[1]
          if row[3] >= idle then
            note(row[1], row[2])
          end
    """,
    tests=(
        contract("test_reclaim", "test_an_overdue_message_behind_many_living_ones_is_found", "valkey-9.1"),
    ),
)
