"""No fence on SQLite."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sql/settling.py",
    why=(
        "A worker that stood still for longer than its lease retries or buries a job that another "
        "worker runs now."
    ),
    before="""
        if subject is None or subject.place != RUNNING or subject.claim != token_of(settlement.claim).claim:
            return _LOST
    """,
    after="""
        if subject is None or subject.place != RUNNING:
            return _LOST
    """,
    tests=(
        contract(
            "test_fences", "test_an_outcome_is_lost_when_another_holds_the_message", "sqlite-retry-queue"
        ),
        contract(
            "test_fences", "test_an_outcome_is_lost_when_the_same_worker_claimed_it_again", "sqlite-retry"
        ),
    ),
)
