"""Retry forgets to acknowledge."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import Round, SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/settle/run_again.lua",
    why="A retried job also comes back when the lease of its first run runs out: it runs twice.",
    before="""
        take_out(lane, entry, returned == '2')
        local ttl = cancelled_for(id, flags)
    """,
    after="""
        local ttl = cancelled_for(id, flags)
    """,
    tests=(
        contract(
            "test_fences", "test_an_outcome_is_lost_when_the_same_worker_claimed_it_again", "valkey-9.1-dead"
        ),
        contract("test_fences", "test_an_outcome_settled_twice_counts_once", "valkey-9.1-retry"),
    ),
    rounds=(Round("valkey-9.1", "jobs", "scripts-flushed"),),
)
