"""Catching up brings handled events again."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="core/topics/deferred_keys.py",
    why=(
        "While a stuck key catches up, events of another key come again that were handled before it "
        "was stuck."
    ),
    before="""
        return deferred is not None and start <= deferred.number <= number
    """,
    after="""
        return deferred is not None and start <= number
    """,
    tests=(
        contract(
            "test_group_stuck_keys", "test_a_key_that_catches_up_brings_no_event_of_another_again", "memory"
        ),
    ),
)
