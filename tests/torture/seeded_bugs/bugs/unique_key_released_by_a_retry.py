"""Unique key released by a retry."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import Round, SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/settle/run_again.lua",
    why="A second job with the same unique key is accepted while the first one waits for its retry.",
    before="""
        if state ~= '' then
          put(message, 's', state)
        end
    """,
    after="""
        release(string.sub(get(message, 'u') or '', 1, 1) == 'f' and get(message, 'u') or nil, id)
        if state ~= '' then
          put(message, 's', state)
        end
    """,
    tests=(
        contract(
            "test_unique_until",
            "test_until_finished_a_message_that_runs_again_holds_its_key",
            "valkey-9.1-retry",
        ),
    ),
    rounds=(Round("valkey-9.1", "jobs", "scripts-flushed"),),
)
