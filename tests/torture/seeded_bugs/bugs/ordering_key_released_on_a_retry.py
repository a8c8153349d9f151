"""Ordering key released on a retry."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import Round, SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/settle/run_again.lua",
    why="While an event of an ordered group waits for its retry, later events of its key run.",
    before="""
        local due = clock() + delay
        park(id, flags, message, to, due)
    """,
    after="""
        local due = clock() + delay
        park(id, flags, message, to, due)
        local key = string.match(get(message, 'u') or '', '^k(.*)$')
        if key then
          hand_on(key, id)
        end
    """,
    tests=(
        contract(
            "test_group_order", "test_an_event_that_waits_to_run_again_keeps_its_key", "valkey-9.1-outcome0"
        ),
    ),
    rounds=(Round("valkey-9.1", "events", "scripts-flushed"),),
)
