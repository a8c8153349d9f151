"""Expired jobs are never pruned."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sqlite/statements/upkeep_statements.py",
    why="Results of cancelled and expired jobs are never pruned: the file grows for ever.",
    before="""
        SELECT seq FROM headrace_streams AS streams CROSS JOIN json_each('[11, 12, 13]') AS ended
            CROSS JOIN headrace_messages AS message
        WHERE namespace = ?1 AND message.stream = streams.stream AND place = ended.value AND at_us <= ?2
        LIMIT ?3)
    """,
    after="""
        SELECT seq FROM headrace_streams AS streams CROSS JOIN json_each('[11, 12]') AS ended
            CROSS JOIN headrace_messages AS message
        WHERE namespace = ?1 AND message.stream = streams.stream AND place = ended.value AND at_us <= ?2
        LIMIT ?3)
    """,
    tests=(
        contract("test_results_and_waiters", "test_a_waiter_is_woken_by_the_settlement", "sqlite-expired"),
    ),
)
