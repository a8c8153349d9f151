"""Promotion drops the rest."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/redis/lua/shared/promoting.lua",
    why="Of more jobs that are due at once than one step promotes, the rest is lost.",
    before="""
            d = d + 2
          end
        end
        return true
    """,
    after="""
            d = d + 2
          end
        end
        redis.call('ZREMRANGEBYSCORE', DUE, '-inf', digits(now))
        return true
    """,
    tests=(
        contract("test_promote", "test_a_promotion_takes_no_more_than_its_limit", "valkey-9.1"),
        contract("test_promote", "test_the_limit_of_a_promotion_holds_over_all_sources", "valkey-9.1"),
    ),
)
