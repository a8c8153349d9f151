"""Group made at the end."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import Round, SeededBug

BUG = SeededBug(
    file="stores/redis/lua/shared/claiming.lua",
    why="After the consumer group was destroyed, jobs that were queued before are never handed out.",
    before="""
        redis.call('XGROUP', 'CREATE', key, group, '0', 'MKSTREAM')
    """,
    after="""
        redis.call('XGROUP', 'CREATE', key, group, '$', 'MKSTREAM')
    """,
    tests=(
        "tests/integration/redis/test_backend.py::test_destroyed_groups_are_made_again_and_nothing_is_lost[valkey-9.1]",
    ),
    rounds=(Round("valkey-9.1", "jobs", "groups-destroyed"),),
)
