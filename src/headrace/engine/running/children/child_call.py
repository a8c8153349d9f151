"""One call of a run's function in a child process, with its progress, its log and its answer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headrace.core.messages.directives import RetryLater, Snooze, Unrecoverable
from headrace.core.messages.error_kinds import CARRIED_KINDS
from headrace.engine.declared.registry import Registry, declaration_of
from headrace.engine.running.failure import CARRIED
from headrace.engine.running.job_log.run_log import RunLog
from headrace.engine.running.run import Run

from .process import ChildProcess
from .protocol import ChildJob, Logged, Progressed, Raised, Returned


class RemoteError(Exception):
    """What a function raised in a child process; it carries the type, message and traceback as text."""


class EncodedResult(msgspec.Struct, frozen=True):
    """A result that the child has encoded already, or why it could not."""

    value: bytes | None
    note: str = ""


class ChildCall:
    """One call of a run's function in a child. `started` is called when it begins there."""

    def __init__(self, run: Run, registry: Registry, started: Callable[[Run], None]) -> None:
        self.child: ChildProcess | None = None  # set while a child works on the call
        self.over = False
        self._run = run
        self._registry = registry
        self._started = started
        self._arguments = self._changed_arguments()

    def assignment(self, number: int) -> ChildJob:
        run = self._run
        return ChildJob(
            number=number,
            declaration=declaration_of(self._registry, run.handler),
            queue=run.queue,
            id=run.id,
            body=run.claim.body,
            state=run.claim.state,
            timeout=run.timeout,
            arguments=self._arguments,
        )

    def _changed_arguments(self) -> bytes | None:
        """The arguments of the run, when there is middleware: it may have changed them."""
        encode = self._run.handler.encode_bare
        if encode is None or not self._registry.has_middleware:
            return None
        return encode(self._run.args, self._run.kwargs)

    def kill(self) -> None:
        """End the call: its run is over."""
        self.over = True
        if self.child is not None:
            self.child.kill()

    def started(self) -> None:
        self._started(self._run)

    def reported(self, message: Progressed | Logged) -> None:
        run = self._run
        if isinstance(message, Progressed):
            run.progress_sync(message.fraction, message.text)
            return
        if run.log is None:
            run.log = RunLog(run.handler.job_logs)
        run.log.add(*message.lines, dropped=message.dropped)


def result_of(answer: Returned | Raised) -> EncodedResult:
    """The value that the function returned. Raises the error that the function raised."""
    if isinstance(answer, Raised):
        raise raised_here(answer)
    return EncodedResult(answer.value, answer.note)


def raised_here(raised: Raised) -> Exception:
    """The error of a child as an exception of this process."""
    text = raised.failure.error
    error: Exception
    match raised.directive:
        case "RetryLater":
            error = RetryLater(raised.delay, text)
        case "Snooze":
            error = Snooze(raised.delay, text)
        case "Unrecoverable":
            error = Unrecoverable(text)
        case _:
            error = RemoteError(f"{raised.failure.error_type}: {text}")
    setattr(error, CARRIED, raised.failure)
    setattr(error, CARRIED_KINDS, raised.kinds)
    return error
