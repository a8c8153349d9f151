"""Decides the `Outcome` of a job from what its handler returned or raised. Writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType

import msgspec

from headrace.core.messages.claim import Claim
from headrace.core.messages.directives import RetryLater, Snooze, Unrecoverable
from headrace.core.messages.job_log import NO_LOG, JobLog
from headrace.core.messages.message import TrailEntry
from headrace.core.messages.outcome import (
    DONE,
    Cancelled,
    Dead,
    DeadReason,
    Done,
    Expired,
    Failure,
    Kept,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
)
from headrace.core.messages.retry import DEFAULT_RETRY, RetryFunction, RetryPolicy
from headrace.core.runtime.clock import microseconds
from headrace.core.store import CRASH_LIMIT, crash_failure
from headrace.core.values.durations import LONGEST, seconds
from headrace.engine.declared.queue import Queue
from headrace.engine.running.children.child_call import EncodedResult
from headrace.engine.running.children.process import ChildDied
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.worker.options import WorkerOptions

from .failure import failure_of, storable
from .run import Abandoned, Run

#: Seconds for which a message with an unknown task or envelope version is handed back. Then it is dead.
UNKNOWN_FOR = 3600.0
LONGEST_UNKNOWN_DELAY = 60.0

#: Seconds until a message is ready again that is handed back because the event loop ends. Until then the
#: worker has stopped claiming: it must not take the message itself.
LOOP_END_DELAY = 1.0

#: Characters of an error that a message's trail remembers.
TRAIL_TEXT = 200


class OutcomePolicy:
    """Knows the worker's name and limits; everything else comes with the run."""

    def __init__(
        self,
        worker: str,
        options: WorkerOptions,
        held: HeldClaims,
        queues: Mapping[str, Queue] = MappingProxyType({}),
    ) -> None:
        self._queues = queues
        self._worker = worker
        self._clock_us = held.store_clock_us
        self._max_payload = options.max_payload
        self.end_record_ttl_us: int = microseconds(options.end_record_ttl)
        #: Whether all tasks of the event loop were cancelled, and the worker has not begun to stop.
        self.loop_ends: Callable[[], bool] = lambda: False

    def returned(self, run: Run, value: object) -> Outcome:
        """The outcome after the handler returned."""
        if run.interruption == "cancelled":
            return self._logged(run, Cancelled(self.end_record_ttl_us))
        overrides = run.envelope.overrides
        ttl = run.handler.result_ttl
        if overrides is not None and overrides.result_ttl is not None:
            ttl = overrides.result_ttl
        if not ttl:
            return DONE
        done = Done(self._kept(run, value, ttl))
        return done if run.log is None else self._logged(run, done)

    def raised(self, run: Run, error: BaseException) -> tuple[Outcome, Failure | None]:
        """The outcome after the handler raised, by itself or because it was interrupted."""
        if isinstance(error, RetryLater | Snooze):
            error = _checked(error)
        outcome, failure = self._after(run, error)
        return self._logged(run, outcome), failure

    def log_of(self, run: Run) -> JobLog:
        """The log of the run so far, with times of the store's clock."""
        return NO_LOG if run.log is None else run.log.so_far(self._clock_us(run.claim))

    def _logged(self, run: Run, outcome: Outcome) -> Outcome:
        """The outcome with the run's log in its state, if the app keeps logs."""
        if run.log is None or isinstance(outcome, Expired):
            return outcome
        state = outcome.state or run.claim.state
        return msgspec.structs.replace(outcome, state=state.logged(self.log_of(run), run.log.most))

    def _after(self, run: Run, error: BaseException) -> tuple[Outcome, Failure | None]:
        match run.interruption, error:
            case "cancelled", _:
                return Cancelled(self.end_record_ttl_us), None
            case "shutdown" | "lost", asyncio.CancelledError() | Abandoned() | ChildDied():
                return self.released(run.claim), None
            case _, Snooze(delay=delay):
                state = run.claim.state.snoozed(self._trail_entry(run.claim, "snoozed", str(error)))
                return Snoozed(state, microseconds(delay)), None
            case "timeout", asyncio.CancelledError() | ChildDied():
                return self._failed(run, _timed_out(run), what="timed out")
            case _, ChildDied():
                return self._crashed(run, error)
            case _:
                return self._failed(run, error)

    def overdue(self, run: Run) -> tuple[Outcome, Failure | None]:
        """The outcome of a thread that returned after its timeout."""
        outcome, failure = self._failed(run, _timed_out(run), what="timed out")
        return self._logged(run, outcome), failure

    def timed_out(self, run: Run) -> TimeoutError:
        """The error of a list whose thread returned after its timeout."""
        return _timed_out(run)

    def released(self, claim: Claim) -> Released:
        """Hand back the claim of a run. This uses up no retry, and the message does not expire any more."""
        return self._released(claim, claim.claimed_us)

    def unstarted(self, claim: Claim) -> Released:
        """Hand back a claim with which no handler has begun."""
        return msgspec.structs.replace(self._released(claim, 0), unstarted=True)

    def _released(self, claim: Claim, began_us: int) -> Released:
        entry = TrailEntry(self._clock_us(claim), "released", self._worker, began_us=began_us)
        return Released(claim.state.released(entry), microseconds(LOOP_END_DELAY) if self.loop_ends() else 0)

    def left_behind(self, run: Run) -> Outcome:
        """Hand back the claim of a handler that cannot be ended and goes on."""
        return self._logged(run, self.released(run.claim))

    def unknown(self, claim: Claim, reason: DeadReason, text: str) -> Outcome:
        """Another worker may know the task (a rolling deploy). So hand the message back for an hour; then it
        is dead."""
        state = claim.state.unknown(self._trail_entry(claim, "unknown", text))
        if claim.claimed_us - state.unknown_since_us >= microseconds(UNKNOWN_FOR):
            return self.refused(claim, reason, text)
        delay = min(LONGEST_UNKNOWN_DELAY, 2.0 ** min(claim.state.releases, 10))
        return Released(state, microseconds(delay))

    def refused(self, claim: Claim, reason: DeadReason, text: str) -> Dead:
        """The outcome of a message that never reached a handler."""
        state = claim.state.failed(self._trail_entry(claim, "failed", text))
        return Dead(state, reason, Failure(error_type=reason.value, error=storable(text)))

    def crashed_too_often(self, claim: Claim) -> Dead:
        """The outcome of a message that was recovered at its crash limit."""
        return Dead(claim.state, DeadReason.CRASHED, crash_failure(claim.state.crashes))

    def unwritable(self, settlement: Settlement, error: Exception) -> Dead:
        """The outcome of a run whose own outcome the store can never write. The job is not run again: it may
        have done its work."""
        how = type(settlement.outcome).__name__.lower()
        text = f"how it ended cannot be stored ({how}): {type(error).__name__}: {error}"
        return self.refused(settlement.claim, DeadReason.REFUSED, text)

    def broken(self, claim: Claim, error: BaseException) -> tuple[Outcome, Failure]:
        """The outcome after an error of the engine itself: a retry, and after the last one a dead letter."""
        failure = failure_of(error)
        state = claim.state.failed(
            self._trail_entry(claim, "failed", f"{failure.error_type}: {failure.error}")
        )
        delay = DEFAULT_RETRY.delay(state.failures)
        if delay is None:
            return Dead(state, DeadReason.EXHAUSTED, failure), failure
        return Retry(state, microseconds(delay)), failure

    def _failed(self, run: Run, error: BaseException, what: str = "failed") -> tuple[Outcome, Failure]:
        failure = failure_of(error)
        text = f"{failure.error_type}: {failure.error}"
        label = "timed out" if what == "timed out" else "failed"
        state = run.claim.state.failed(self._trail_entry(run.claim, label, text))
        if isinstance(error, Unrecoverable):
            return Dead(state, DeadReason.UNRECOVERABLE, failure), failure
        delay = self._delay(run, state.failures, error)
        if delay is None:
            policy = self._policy(run)
            given_up = isinstance(policy, RetryPolicy) and policy.gives_up(error)
            reason = DeadReason.UNRECOVERABLE if given_up else DeadReason.EXHAUSTED
            return Dead(state, reason, failure), failure
        return Retry(state, microseconds(delay)), failure

    def _crashed(self, run: Run, error: BaseException) -> tuple[Outcome, Failure]:
        """The outcome when the child process died during the run. It counts as a crash and has that limit."""
        failure = failure_of(error)
        state = run.claim.state.crashed(self._trail_entry(run.claim, "crashed", failure.error))
        if state.crashes >= self._crash_limit(run.queue):
            return Dead(state, DeadReason.CRASHED, failure), failure
        policy = self._policy(run)
        # A crash is no error of the handler. So `on` and `give_up_on` do not apply, and its limit bounds it.
        if isinstance(policy, RetryPolicy):
            delay = policy.delay(state.crashes)
        else:
            delay = _ask(policy, state.crashes, error)
        return Retry(state, microseconds(delay or 0.0)), failure

    def _delay(self, run: Run, failures: int, error: BaseException) -> float | None:
        delay = _ask(self._policy(run), failures, error)
        if delay is not None and isinstance(error, RetryLater):
            return error.delay
        return delay

    def _crash_limit(self, queue: str) -> int:
        declared = self._queues.get(queue)
        return CRASH_LIMIT if declared is None or declared.crash_limit is None else declared.crash_limit

    def _policy(self, run: Run) -> RetryPolicy | RetryFunction:
        """The retry policy of the call, else of the task, else of the queue, else of the app."""
        overrides, handler = run.envelope.overrides, run.handler
        if overrides is not None and overrides.retry is not None:
            return overrides.retry
        queue = None if handler.own_retry else self._queues.get(run.queue)
        return handler.retry if queue is None or queue.retry is None else queue.retry

    def _kept(self, run: Run, value: object, ttl: float) -> Kept:
        result = value if isinstance(value, EncodedResult) else _encoded(run, value)
        encoded = result.value
        if encoded is None:
            return Kept(None, microseconds(ttl), storable(result.note))
        if len(encoded) > self._max_payload:
            note = f"the result has {len(encoded):,} bytes, more than the {self._max_payload:,} allowed"
            return Kept(None, microseconds(ttl), note)
        return Kept(encoded, microseconds(ttl))

    def _trail_entry(self, claim: Claim, what: str, text: str = "") -> TrailEntry:
        at_us, began_us = self._clock_us(claim), 0 if what == "unknown" else claim.claimed_us
        return TrailEntry(at_us, what, self._worker, text[:TRAIL_TEXT], began_us)  # type: ignore[arg-type]


def _checked(error: RetryLater | Snooze) -> BaseException:
    """Check the delay again, since it can be changed after the error was made. An invalid delay is the error
    of the run."""
    try:
        error.delay = seconds("delay", error.delay)
    except Exception as mistaken:
        return mistaken
    return error


def _encoded(run: Run, value: object) -> EncodedResult:
    try:
        return EncodedResult(run.handler.encode(value, run.claim.id))
    except Exception as error:
        return EncodedResult(None, f"the result cannot be encoded: {error}")


def _timed_out(run: Run) -> TimeoutError:
    return TimeoutError(f"{run.task} did not end within its timeout of {run.timeout:g} s")


def _ask(policy: RetryPolicy | RetryFunction, failures: int, error: BaseException) -> float | None:
    if isinstance(policy, RetryPolicy):
        return policy.delay(failures, error)
    try:
        delay: float | timedelta | None = policy(failures, error)
        return None if delay is None else min(seconds("the retry function's delay", delay), LONGEST)
    except Exception:
        return None  # the retry function failed: the job is dead, with its own error
