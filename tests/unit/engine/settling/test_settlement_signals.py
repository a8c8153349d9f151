"""From a settlement and the store's verdict to signals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace import signals
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import FRESH, Stream, TrailEntry
from headrace.core.messages.outcome import (
    DONE,
    Cancelled,
    Dead,
    DeadReason,
    Expired,
    Failure,
    Outcome,
    Released,
    Retry,
    Snoozed,
    Verdict,
)
from headrace.engine.emitter import Emitter
from headrace.engine.running.finished import FinishedRun
from headrace.engine.settling.settlement_signals import SettlementSignals

CLAIM = Claim(Stream("queue", "mails"), "id", b"", 1, claimed_us=1)
NAMES = ("id", "send", "mails")
FAILURE = Failure("ValueError", "no", "Traceback…")
FAILED = FRESH.failed(TrailEntry(1, "failed", "worker"))

Settled = Callable[..., list[signals.Signal]]


@pytest.fixture
def settled() -> Settled:
    """Announce an outcome and its verdict; what was heard."""

    def settled(
        outcome: Outcome,
        verdict: Verdict = Verdict.KEPT,
        *,
        failure: Failure | None = None,
        doubtful: bool = False,
        lost: bool = False,
    ) -> list[signals.Signal]:
        heard: list[signals.Signal] = []
        emitter = Emitter()
        emitter.on(signals.Signal, heard.append)
        finished = FinishedRun(CLAIM, outcome, (), None, "send", 0.5, failure, lost)
        SettlementSignals(emitter, worker="worker").settled(finished, verdict, doubtful)
        return heard

    return settled


def test_a_success(settled: Settled) -> None:
    assert settled(DONE) == [signals.JobSucceeded(*NAMES, attempt=1, worker="worker", seconds=0.5)]


def test_a_failure_is_told_before_what_follows_from_it(settled: Settled) -> None:
    failed, retrying = settled(Retry(FAILED, 2_000_000), failure=FAILURE)
    assert isinstance(failed, signals.JobFailed)
    assert (failed.seconds, failed.error, failed.traceback) == (0.5, "no", "Traceback…")
    assert retrying == signals.JobRetrying(*NAMES, attempt=1, delay=2.0, why="ValueError: no")


def test_a_death(settled: Settled) -> None:
    _, died = settled(Dead(FAILED, DeadReason.EXHAUSTED, FAILURE), failure=FAILURE)
    assert isinstance(died, signals.JobDied)
    assert (died.attempt, died.reason, died.error_type, died.error) == (1, "exhausted", "ValueError", "no")
    assert died.traceback == FAILURE.traceback
    letter = died.dead_letter
    assert (letter.id, letter.task, letter.queue, letter.reason) == (*NAMES, "exhausted")
    assert (letter.attempts, letter.error, letter.payload) == (1, "no", CLAIM.body)
    assert letter.died_at.timestamp() == pytest.approx(0.500001)  # half a second after the claim


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Snoozed(FRESH, 1_000_000), [signals.JobRetrying(*NAMES, attempt=1, delay=1.0, why="snoozed")]),
        (Cancelled(1), [signals.JobCancelled(*NAMES)]),
        (Expired(1), [signals.JobExpired(*NAMES)]),
        (Released(FRESH), []),
    ],
)
def test_the_other_ends(settled: Settled, outcome: Outcome, expected: list[signals.Signal]) -> None:
    assert settled(outcome) == expected


def test_a_success_that_came_too_late_is_none(settled: Settled) -> None:
    assert settled(DONE, Verdict.GONE) == []


def test_a_refusal_means_that_the_lease_was_lost(settled: Settled) -> None:
    heard = settled(Retry(FAILED, 1), Verdict.LOST, failure=FAILURE)
    assert heard == [signals.LeaseLost(*NAMES, worker="worker")]


def test_a_lost_lease_that_was_told_before_is_not_told_again(settled: Settled) -> None:
    assert settled(Released(FRESH), Verdict.LOST, lost=True) == []


def test_a_refusal_after_a_lost_answer_proves_nothing(settled: Settled) -> None:
    assert settled(Retry(FAILED, 1), Verdict.LOST, failure=FAILURE, doubtful=True) == []
