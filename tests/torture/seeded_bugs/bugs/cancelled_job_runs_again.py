"""Cancelled job runs again."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sql/settling.py",
    why="A job that was cancelled while it ran is retried after its failure.",
    before="""
        if subject.cancel_us is not None:
            changes.end(subject, CANCELLED, ttl_us=subject.cancel_us)
        elif outcome.delay_us > 0:
    """,
    after="""
        if outcome.delay_us > 0:
    """,
    tests=(contract("test_cancel", "test_what_was_to_be_cancelled_does_not_run_again", "sqlite-retry"),),
)
