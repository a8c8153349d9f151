"""Sealed part takes jobs."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sqlite/verbs/append.py",
    why="A part of a queue that is being split takes jobs after it was emptied: they are stranded.",
    before="""
        if not established or sealed or (last is not None and last >= batch.number):
    """,
    after="""
        if not established or (last is not None and last >= batch.number):
    """,
    tests=(
        contract("test_layouts", "test_a_sealed_part_answers_what_it_had_taken_before", "sqlite"),
        contract("test_fresh", "test_a_sealed_part_takes_none_alone_but_knows_the_last", "sqlite"),
    ),
)
