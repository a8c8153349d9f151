"""Runs bundles: one call for all claims, and smaller calls when it fails, until the failing event is alone.

An error of the handler does not tell which event caused it. So the list is halved, and each half is handled
by itself. One bad event costs the others a few repeats, and never makes them dead letters. When several calls
fail and none succeeds, the cause is elsewhere (a database is unreachable, for example). Then all events are
retried later, as long as each of them has a retry left.
"""

from __future__ import annotations

import msgspec

from headrace.core.messages.directives import BatchResult, RetryLater, Snooze
from headrace.core.messages.outcome import DONE, Dead, Failure, Outcome, Retry, Snoozed
from headrace.engine.running.executor import Executor
from headrace.engine.running.finished import FinishedRun
from headrace.engine.running.run import Run, Slot

from .bundle import Bundle, FinishedBundle, bundle_of

#: After this many failed calls and no success, the cause is taken to be outside of the events.
HOPELESS = 7


class Batches:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def run(self, bundle: Bundle, slot: Slot) -> FinishedBundle:
        """Run the bundle; returns the outcome of each event."""
        handling = _Handling(bundle, self._executor, slot)
        try:
            runs: list[Run] = []
            for claim in bundle.claims:
                prepared = self._executor.prepare(claim)
                if isinstance(prepared, Run):
                    runs.append(prepared)
                else:
                    handling.finished.append(prepared)
            for run in runs:
                self._executor.announce_start(run)
            if runs:
                await handling.handle(runs)
        except Exception as error:
            handling.finished += [
                self._executor.broken(claim, error)
                for claim in bundle.claims
                if all(each.claim is not claim for each in handling.finished)
            ]
        return FinishedBundle(bundle, handling.finished)


class _Handling:
    """The handling of one bundle."""

    def __init__(self, bundle: Bundle, executor: Executor, slot: Slot) -> None:
        self.finished: list[FinishedRun] = []
        self._bundle = bundle
        self._executor = executor
        self._policy = executor.policy
        self._slot = slot
        self._failures = 0
        self._successes = 0

    async def handle(self, runs: list[Run]) -> None:
        together = self._joined(runs)
        finished = await self._executor.carry_out(together, self._slot)
        error, together.error = together.error, None
        if error is None:
            error = _mistake(together, len(runs))
        if error is None:
            self._successes += 1
            self._divide(runs, together.value, finished.seconds)
        else:
            self._failures += 1
            await self._failed(runs, together, error, finished.seconds)

    def _joined(self, runs: list[Run]) -> Run:
        """One run for all these runs, with the data of the first. Its claim is the whole bundle, including
        the claims that wait until this part of the bundle has ended."""
        first = runs[0]
        values = [run.args[0] for run in runs]
        claim, envelope = bundle_of(first.claim, self._bundle.claims), first.envelope
        if envelope.overrides is not None:  # they concern one job
            envelope = msgspec.structs.replace(envelope, overrides=None)
        return Run(claim, envelope, first.handler, (values,), {}, first.resources)

    def _divide(self, runs: list[Run], value: object, seconds: float) -> None:
        failed = value.failed if isinstance(value, BatchResult) else {}
        for index, run in enumerate(runs):
            if index in failed:
                self._finish(run, *self._policy.raised(run, _error(failed[index])), seconds)
            elif run.handler.batch_rule is None:
                self._finish(run, DONE, None, seconds)
            else:
                result = value[index] if isinstance(value, list | tuple) else None
                self._finish(run, self._policy.returned(run, result), None, seconds)

    async def _failed(self, runs: list[Run], together: Run, error: BaseException, seconds: float) -> None:
        for run in runs:
            run.interruption, run.timeout = together.interruption, together.timeout
        decided = [self._decided(run, error) for run in runs]
        interrupted = together.interruption not in (None, "timeout")
        if len(runs) == 1 or interrupted or self._is_for_all(together, error, decided):
            for run, (outcome, failure) in zip(runs, decided, strict=True):
                self._finish(run, outcome, failure, seconds)
            return
        for run in runs:
            run.interruption = None
        middle = len(runs) // 2
        await self.handle(runs[:middle])
        await self.handle(runs[middle:])

    def _decided(self, run: Run, error: BaseException) -> tuple[Outcome, Failure | None]:
        outcome, failure = self._policy.raised(run, error)
        if run.interruption not in (None, "timeout") and isinstance(outcome, Dead):
            # The call was interrupted, and there is no time to find the failing event. So none is dead.
            return self._policy.released(run.claim), failure
        return outcome, failure

    def _is_for_all(
        self, together: Run, error: BaseException, decided: list[tuple[Outcome, Failure | None]]
    ) -> bool:
        """Whether the error applies to the whole list. A `Snooze` or `RetryLater` of the handler does, and a
        timeout: halves would take as long again. But none becomes a dead letter because of the others."""
        if not all(isinstance(outcome, Retry | Snoozed) for outcome, _ in decided):
            return False
        asked_for = isinstance(error, Snooze | RetryLater) or together.interruption == "timeout"
        return asked_for or (self._failures >= HOPELESS and not self._successes)

    def _finish(self, run: Run, outcome: Outcome, failure: Failure | None, seconds: float) -> None:
        run.ended = True
        lost = run.interruption == "lost"
        self.finished.append(
            FinishedRun(run.claim, outcome, (), None, run.envelope.task, seconds, failure, lost)
        )


class SingleEventFailed(Exception):
    """A batch handler reported the failure of one event, with a text."""


def _mistake(together: Run, count: int) -> Exception | None:
    """What is wrong with a `BatchResult`, or with a list of results. A failure under a wrong index would go
    unnoticed, and its event would be lost."""
    value = together.value
    if together.handler.batch_rule is not None and isinstance(value, list | tuple) and len(value) != count:
        return ValueError(f"{together.task} returned {len(value)} results for a list of {count}")
    failed = value.failed if isinstance(value, BatchResult) else {}
    wrong = [index for index in failed if index not in range(count)]
    return IndexError(f"BatchResult(failed=…) names {wrong[0]!r} of a list of {count}") if wrong else None


def _error(given: BaseException | str) -> BaseException:
    return given if isinstance(given, BaseException) else SingleEventFailed(given)
