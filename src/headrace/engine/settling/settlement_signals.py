"""Emits the signals for the outcome of a job or an event, once the store has written it. Makes no signal
without a listener."""

from __future__ import annotations

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import decode_envelope
from headrace.core.messages.outcome import Cancelled, Dead, Done, Expired, Outcome, Retry, Snoozed, Verdict
from headrace.core.records.record import DeadLetter, JobStatus, Record, dead_letter_of, opened_letter
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.core.signals import (
    EventDied,
    EventExpired,
    EventFailed,
    EventHandled,
    EventRetrying,
    EventUnsettled,
    JobCancelled,
    JobDied,
    JobExpired,
    JobFailed,
    JobRetrying,
    JobSucceeded,
    LeaseLost,
    Signal,
)
from headrace.engine.declared.subscription import group_name
from headrace.engine.emitter import Emitter
from headrace.engine.running.finished import FinishedRun


class SettlementSignals:
    """Makes signals from a settlement and the store's verdict."""

    def __init__(self, emitter: Emitter, *, worker: str) -> None:
        self._emitter = emitter
        self._worker = worker

    def settled(self, finished: FinishedRun, verdict: Verdict, doubtful: bool) -> None:
        """Announce what was written, and a lease that turned out to be lost.

        `doubtful`: an earlier try to write may have succeeded, so a refusal proves nothing.
        """
        if verdict is Verdict.LOST and not doubtful:
            self._lost(finished)
        elif verdict is not Verdict.LOST:
            self.failed(finished)
            if verdict is Verdict.KEPT:
                self.ended(finished)

    def _lost(self, finished: FinishedRun) -> None:
        if not finished.lost:  # else the renewal has announced it already
            self._emitter.emit(LeaseLost(*_names(finished), worker=self._worker))

    def failed(self, finished: FinishedRun) -> None:
        """Announce the error of a run, if there is one."""
        failure = finished.failure
        if failure is None:
            return
        run = finished.claim.state.attempt, self._worker, finished.seconds
        error = failure.error_type, failure.error, failure.traceback
        if finished.claim.stream.kind == "queue":
            if JobFailed in self._emitter.wanted:
                self._emitter.emit(JobFailed(*_names(finished), *run, *error))
        elif EventFailed in self._emitter.wanted:
            self._emitter.emit(EventFailed(*_event_names(finished), *run, *error))

    def ended(self, finished: FinishedRun) -> None:
        """Announce the outcome."""
        is_event = finished.claim.stream.kind == "group"
        kind = (_EVENT_SIGNALS if is_event else _SIGNALS).get(type(finished.outcome))
        if kind is not None and kind in self._emitter.wanted:
            signal = self._event_signal if is_event else self._signal
            self._emitter.emit(signal(finished, finished.outcome))

    def left_open(self, finished: FinishedRun) -> None:
        """Announce that a handler with manual acknowledgement returned without settling."""
        self._emitter.emit(EventUnsettled(*_event_names(finished), worker=self._worker))

    def _event_signal(self, finished: FinishedRun, outcome: Outcome) -> Signal:
        names, attempt = _event_names(finished), finished.claim.state.attempt
        match outcome:
            case Done():
                seconds, waited = finished.seconds, _waited(finished.claim)
                return EventHandled(*names, attempt, self._worker, seconds=seconds, waited=waited)
            case Retry(delay_us=delay_us):
                return EventRetrying(*names, attempt=attempt, delay=delay_us / SECOND, why=_why(finished))
            case Snoozed(delay_us=delay_us):
                return EventRetrying(*names, attempt=attempt, delay=delay_us / SECOND, why="snoozed")
            case Dead(reason=reason, failure=failure):
                error = failure.error_type, failure.error, failure.traceback
                return EventDied(*names, attempt, reason.value, *error, seconds=finished.seconds)
            case _:
                return EventExpired(*names)

    def _signal(self, finished: FinishedRun, outcome: Outcome) -> Signal:
        names, attempt = _names(finished), finished.claim.state.attempt
        match outcome:
            case Done():
                return JobSucceeded(*names, attempt=attempt, worker=self._worker, seconds=finished.seconds)
            case Retry(delay_us=delay_us):
                return JobRetrying(*names, attempt=attempt, delay=delay_us / SECOND, why=_why(finished))
            case Snoozed(delay_us=delay_us):
                return JobRetrying(*names, attempt=attempt, delay=delay_us / SECOND, why="snoozed")
            case Dead(reason=reason, failure=failure):
                return JobDied(
                    *names,
                    attempt=attempt,
                    reason=reason.value,
                    error_type=failure.error_type,
                    error=failure.error,
                    traceback=failure.traceback,
                    dead_letter=_dead_letter(finished, outcome),
                    seconds=finished.seconds,
                )
            case Cancelled():
                return JobCancelled(*names)
            case _:
                return JobExpired(*names)


_SIGNALS: dict[type, type[Signal]] = {
    Done: JobSucceeded,
    Retry: JobRetrying,
    Snoozed: JobRetrying,
    Dead: JobDied,
    Cancelled: JobCancelled,
    Expired: JobExpired,
}


_EVENT_SIGNALS: dict[type, type[Signal]] = {
    Done: EventHandled,
    Retry: EventRetrying,
    Snoozed: EventRetrying,
    Dead: EventDied,
    Expired: EventExpired,
}


def _dead_letter(finished: FinishedRun, dead: Dead) -> DeadLetter:
    """The dead letter as `admin.dead` shows it. Its time is the end of the run, by the store's clock."""
    claim = finished.claim
    record = Record(
        claim.whole,
        claim.id,
        JobStatus.DEAD,
        task=finished.task,
        body=claim.body,
        state=dead.state,
        ended_us=claim.claimed_us + microseconds(finished.seconds),
        reason=dead.reason,
        failure=dead.failure,
    )
    return opened_letter(dead_letter_of(record))


def _why(finished: FinishedRun) -> str:
    failure = finished.failure
    return f"{failure.error_type}: {failure.error}" if failure else ""


def _waited(claim: Claim) -> float:
    """Seconds since the event was published. Its envelope holds that time."""
    return max(0, claim.claimed_us - decode_envelope(claim.body).enqueued_us) / SECOND


def _event_names(finished: FinishedRun) -> tuple[str, str, str, str]:
    """The id, the kind, the topic, and the group, which is empty for a fan-out."""
    stream = finished.claim.whole
    return finished.claim.id, finished.task, stream.topic, group_name(stream)


def _names(finished: FinishedRun) -> tuple[str, str, str]:
    return finished.claim.id, finished.task, finished.claim.whole.name
