"""Cancelled caller interrupts its batch."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/producing/producer.py",
    why=(
        "A caller that is cancelled leaves a batch of which nobody knows whether it is stored; the "
        "next one is refused."
    ),
    before="""
        interrupted = batch
        raise
    """,
    after="""
        raise
    """,
    tests=(
        "tests/unit/engine/producing/test_producer.py::test_a_lone_caller_that_goes_away_leaves_his_batch_to_be_sent_again",
        "tests/unit/engine/producing/test_producer.py::test_what_gathered_behind_a_lone_caller_is_sent_when_he_goes_away",
    ),
)
