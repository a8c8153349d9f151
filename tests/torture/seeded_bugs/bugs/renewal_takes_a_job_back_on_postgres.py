"""A renewal takes a job back on PostgreSQL."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/postgres/statements/message_statements.py",
    why="A worker that stood still goes on with a job that another worker runs by now.",
    before="""
        WHERE message.stream + 0 = held.stream AND message.id = held.id AND message.claim = held.claim
            AND place + 0 = 7
        RETURNING message.stream, message.id, message.claim, cancel_us IS NOT NULL
    """,
    after="""
        WHERE message.stream + 0 = held.stream AND message.id = held.id AND place + 0 = 7
        RETURNING message.stream, message.id, held.claim, cancel_us IS NOT NULL
    """,
    tests=(
        contract(
            "test_renew", "test_a_claim_that_another_holds_by_now_is_lost_and_not_prolonged", "postgresql"
        ),
    ),
)
