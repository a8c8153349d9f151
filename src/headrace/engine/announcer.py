"""Says what became of a job, once the store has taken it. Makes no signal that nobody wants."""

from __future__ import annotations

from headrace.core.clock import SECOND
from headrace.core.outcome import Cancelled, Dead, Done, Expired, Outcome, Retry, Snoozed, Verdict
from headrace.core.signals import (
    JobCancelled,
    JobDied,
    JobExpired,
    JobFailed,
    JobRetrying,
    JobSucceeded,
    LeaseLost,
    Signal,
)

from .emitter import Emitter
from .executor import Finished


class Announcer:
    """From a settlement and the store's verdict to signals."""

    def __init__(self, emitter: Emitter, *, worker: str) -> None:
        self._emitter = emitter
        self._worker = worker

    def settled(self, finished: Finished, verdict: Verdict, doubtful: bool) -> None:
        """Announce what was written, and a lease that turned out to be lost.

        `doubtful`: an earlier try to write may have succeeded, so a refusal proves nothing.
        """
        if verdict is Verdict.LOST and not doubtful:
            self._lost(finished)
        elif verdict is not Verdict.LOST:
            self._failure(finished)
            if verdict is Verdict.KEPT:
                self._outcome(finished, finished.outcome)

    def _lost(self, finished: Finished) -> None:
        if not finished.lost:  # else it was announced when the renewal said so
            self._emitter.emit(LeaseLost(*_names(finished), worker=self._worker))

    def _failure(self, finished: Finished) -> None:
        failure = finished.failure
        if failure is not None and self._emitter.wants(JobFailed):
            self._emitter.emit(
                JobFailed(
                    *_names(finished),
                    attempt=finished.claim.state.attempt,
                    worker=self._worker,
                    seconds=finished.seconds,
                    error_type=failure.error_type,
                    error=failure.error,
                    traceback=failure.traceback,
                )
            )

    def _outcome(self, finished: Finished, outcome: Outcome) -> None:
        kind = _SIGNALS.get(type(outcome))
        if kind is not None and self._emitter.wants(kind):
            self._emitter.emit(self._signal(finished, outcome))

    def _signal(self, finished: Finished, outcome: Outcome) -> Signal:
        names, attempt = _names(finished), finished.claim.state.attempt
        match outcome:
            case Done():
                return JobSucceeded(*names, attempt=attempt, worker=self._worker, seconds=finished.seconds)
            case Retry(delay_us=delay_us):
                why = f"{finished.failure.error_type}: {finished.failure.error}" if finished.failure else ""
                return JobRetrying(*names, attempt=attempt, delay=delay_us / SECOND, why=why)
            case Snoozed(delay_us=delay_us):
                return JobRetrying(*names, attempt=attempt, delay=delay_us / SECOND, why="snoozed")
            case Dead(reason=reason, failure=failure):
                return JobDied(
                    *names,
                    attempt=attempt,
                    reason=reason.value,
                    error_type=failure.error_type,
                    error=failure.error,
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


def _names(finished: Finished) -> tuple[str, str, str]:
    return finished.claim.id, finished.task, finished.claim.source.stream.name
