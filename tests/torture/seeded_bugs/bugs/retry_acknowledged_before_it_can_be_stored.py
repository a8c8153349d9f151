"""Retry acknowledged before it can be stored."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="stores/redis/lua/settle/run_again.lua",
    why="A retry is acknowledged first, and when its new place cannot be written, the job is lost.",
    before="""
        redis.call('HLEN', MESSAGES)
        asked, before = true, first_due()
    """,
    after="""
        asked = true
    """,
    tests=(
        "tests/integration/stores/test_damage.py::test_what_cannot_be_put_where_it_belongs_is_a_dead_letter",
    ),
)
