"""Answers of a batch forgotten on PostgreSQL."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/postgres/statements/message_statements.py",
    why="A batch that is sent again says of duplicates and refused jobs that they were accepted.",
    before="""
        WRITE_ANSWERS = "UPDATE headrace.producers SET answers = $3 WHERE stream = $1 AND producer = $2"
    """,
    after="""
        WRITE_ANSWERS = (
            "UPDATE headrace.producers SET answers = NULL"
            " WHERE stream = $1 AND producer = $2 AND $3::bytea IS NULL"
        )
    """,
    tests=(
        contract("test_producers", "test_a_batch_sent_again_keeps_its_duplicates_and_refusals", "postgresql"),
    ),
)
