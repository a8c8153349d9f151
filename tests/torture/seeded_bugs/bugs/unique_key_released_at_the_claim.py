"""Unique key released at the claim."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/memory/streams/stream_state.py",
    why="A second job with the same unique key is accepted while the first one runs.",
    before="""
        self.keys.release(message.unique, message.id, "started")
    """,
    after="""
        self.keys.release(message.unique, message.id, "started", "finished")
    """,
    tests=(
        contract("test_unique", "test_a_duplicate_by_key_leaves_nothing_behind", "memory"),
        contract(
            "test_unique",
            "test_a_key_that_was_given_up_has_no_holder_but_is_remembered_while_the_message_lives",
            "memory",
        ),
    ),
)
