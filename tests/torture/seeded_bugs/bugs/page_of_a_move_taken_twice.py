"""A page of a move is taken twice."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/postgres/moving/importing.py",
    why="A move that is repeated after a lost answer fails, or counts the same messages twice.",
    before="""
        if before.place != page.after:
            return
    """,
    after="""
        if before.place == page.next != page.after:
            before = Imported(page.after, before.count)
    """,
    tests=(contract("test_moving", "test_a_page_is_taken_once", "postgresql"),),
)
