"""One waiter woken."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/shared/messages/ending.lua",
    why="Of several processes that wait for one job, all but one wait until their timeout.",
    before="""
        for channel in string.gmatch(channels or '', '%S+') do
          redis.call('PUBLISH', channel, LABEL .. ' ' .. id)
        end
    """,
    after="""
        local channel = string.match(channels or '', '%S+')
        if channel then
          redis.call('PUBLISH', channel, LABEL .. ' ' .. id)
        end
    """,
    tests=(contract("test_results_and_waiters", "test_all_waiters_of_a_message_are_woken", "valkey-9.1"),),
)
