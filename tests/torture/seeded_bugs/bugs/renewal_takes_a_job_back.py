"""Renewal takes a job back."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/sqlite/lease_keeper.py",
    why=(
        "A worker whose lease ran out prolongs the lease of the worker that has its job now, and "
        "never learns of it."
    ),
    before="""
        running = {(seq, number): cancelled for seq, number, cancelled in rows}
        answers = [_answer(running.get(token_of(claim)[1:3])) for claim in claims]
    """,
    after="""
        running = {seq: cancelled for seq, number, cancelled in rows}
        answers = [_answer(running.get(token_of(claim).seq)) for claim in claims]
    """,
    tests=(
        contract("test_renew", "test_a_claim_that_another_holds_by_now_is_lost_and_not_prolonged", "sqlite"),
        contract("test_renew", "test_a_former_claim_of_the_same_worker_is_lost", "sqlite"),
    ),
)
