"""One run of one job or event: what `current_job()` gives to a handler and what middleware wraps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from math import inf
from types import MappingProxyType
from typing import Any, Literal, Protocol, cast

import msgspec

from headrace.core.errors import HeadraceError
from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.message import Envelope
from headrace.core.messages.outgoing import Outgoing
from headrace.core.runtime.current_run import under_way
from headrace.engine.declared.registry import Handler
from headrace.engine.declared.subscription import group_name
from headrace.engine.running.injection.resources import Resources
from headrace.engine.running.job_log.run_log import RunLog

#: Why a run is asked to end before its handler returns.
Interruption = Literal["timeout", "cancelled", "lost", "shutdown"]

#: Characters that are kept of a job's progress text.
PROGRESS_TEXT = 200

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Abandoned(BaseException):
    """The worker left a thread running at the end of its grace. Middleware must not handle this as an
    error."""


class Delegated(Protocol):
    """A call of a run's function in a child process."""

    def kill(self) -> None: ...


class Slot:
    """The task in which handlers run, one after the other, and a callback for a handler that suspends."""

    __slots__ = ("suspended", "task")

    def __init__(self, task: asyncio.Task[None], suspended: Callable[[], None]) -> None:
        self.task: asyncio.Task[None] = task
        self.suspended: Callable[[], None] = suspended


class Run(msgspec.Struct, eq=False):
    """A job or event that a handler runs: what `current_job()` gives, and what middleware wraps.

    - `args`: the positional arguments, in their annotated types
    - `kwargs`: the named arguments
    """

    # It is a struct because one is made for every job: defaults are free.

    claim: Claim
    envelope: Envelope
    handler: Handler
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    resources: Resources | None = None
    timeout: float | None = None
    timeout_at: float = 0.0  # seconds since 1970
    interruption: Interruption | None = None
    ended: bool = False
    reported: Report | None = None  # the latest progress report
    written: Report | None = None  # the report that the store has
    log: RunLog | None = None  # its log lines, if the app keeps logs and there are any
    settled: bool = False  # its handler has settled it
    value: object = None  # what a batch handler returned
    error: BaseException | None = None  # what a batch handler raised
    _listen: Callable[[float, str], None] | None = None
    _asked: Interruption | None = None
    _slot: Slot | None = None
    _future: asyncio.Future[Any] | None = None
    ends_at: float = inf  # when its timeout ends it, on the clock of the loop
    children: tuple[Delegated, ...] = ()  # its calls in child processes
    delegated: bool = False  # it has requested a child process
    forwards: tuple[Outgoing, ...] = ()  # of an event: what its settlement forwards when it succeeds

    def __repr__(self) -> str:
        return f"<Run of {self.task} {self.id} attempt {self.attempt}>"

    @property
    def id(self) -> str:
        """The job's id."""
        return self.claim.id

    @property
    def task(self) -> str:
        """The task's name."""
        return self.envelope.task

    @property
    def queue(self) -> str:
        """The queue's name; of an event `topic/group`."""
        return self.claim.whole.name

    @property
    def topic(self) -> str | None:
        """The name of an event's topic; None for a job."""
        stream = self.claim.whole
        return stream.topic if stream.kind == "group" else None

    @property
    def group(self) -> str | None:
        """The name of the group that handles an event; None for a job and in a fan-out."""
        stream = self.claim.whole
        return group_name(stream) or None if stream.kind == "group" else None

    @property
    def attempt(self) -> int:
        """1 for the first run, one more after each failure and each crash."""
        return self.claim.state.attempt

    @property
    def redelivered(self) -> bool:
        """Whether an earlier run was cut off, by a crash or a shutdown, and may have done a part."""
        state = self.claim.state
        return state.crashes > 0 or state.releases > 0

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the job or event."""
        return self.envelope.headers or NO_HEADERS

    @property
    def payload(self) -> bytes:
        """The raw bytes of the arguments of the job, or of the payload of the event, as they are stored. An
        app with a codec stores what the codec made of them."""
        return self.envelope.payload

    @property
    def deadline(self) -> datetime | None:
        """When the run's timeout ends it; None for a task without one."""
        return None if self.timeout is None else datetime.fromtimestamp(self.timeout_at, UTC)

    @property
    def state(self) -> Any:
        """What the app's lifespan yielded; None for an app without one."""
        return None if self.resources is None else self.resources.state

    @property
    def cancelled(self) -> bool:
        """Whether this run should end: cancelled, out of time, its lease lost, or its worker stopping.

        A coroutine is cancelled as well; a plain function in a thread has to ask.
        """
        return self.interruption is not None

    async def progress(self, fraction: float, text: str = "") -> None:
        """Say how far the job has come; `info()` and listings show it.

        It may be called as often as you like: the latest is kept, and written about twice a second.

        - `fraction`: from 0 to 1
        - `text`: what it does, at most 200 characters
        """
        self.progress_sync(fraction, text)

    def progress_sync(self, fraction: float, text: str = "") -> None:
        """`progress` for plain functions, in threads and in processes."""
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"progress is a fraction from 0 to 1, not {fraction!r}")
        if self.ended:
            return  # from a thread that goes on after the end of its job
        report = self.reported = Report(self.claim, float(fraction), _printable(text))
        if self._listen is not None:
            self._listen(float(fraction), report.text)

    def on_progress(self, listen: Callable[[float, str], None]) -> None:
        """From now on call `listen`, in any thread, with each progress report of the job."""
        self._listen = listen

    def begin_on_loop(self, slot: Slot) -> None:
        """From now on an interruption cancels the task of `slot`."""
        self._slot = slot

    @property
    def slot(self) -> Slot:
        """The slot in which it was begun."""
        assert self._slot is not None
        return self._slot

    def begin_in_thread(self, future: asyncio.Future[Any]) -> None:
        """The run is in a thread until the future is done. A thread cannot be stopped: it can only check
        `cancelled`."""
        self._future = future

    def begin_timeout(self, timeout: float) -> None:
        self.timeout = timeout
        self.timeout_at = time.time() + timeout

    def interrupt(self, reason: Interruption) -> None:
        """Ask the run to end. The last reason counts, but "lost" is final and only it replaces "cancelled".

        The same reason a second time has no effect: a handler that is cleaning up is not cancelled again.
        """
        if self.ended or reason == self._asked:
            return
        self._asked = reason
        if reason == "lost" or self.interruption not in ("cancelled", "lost"):
            self.interruption = reason
        self.kill_children()
        self._cancel_slot()

    def _cancel_slot(self, _: object = None) -> None:
        """Cancel the handler or its middleware on the event loop. A thread cannot be stopped: when it has
        ended, the next await of the middleware is cancelled."""
        if self._slot is None or self.ended:
            return
        if self._future is not None and not self._future.done():
            self._future.add_done_callback(self._cancel_slot)
        else:
            self._slot.task.cancel(f"headrace: {self._asked}")

    def kill_children(self) -> None:
        """End its calls in child processes, even when a caller still waits for them."""
        for call in self.children:
            call.kill()

    @property
    def in_thread(self) -> bool:
        return self._future is not None and not self._future.done()

    def abandon(self) -> None:
        """Stop waiting for a thread that did not end in time."""
        if self._future is not None and not self._future.done():
            # The middleware gets `Abandoned` instead of a cancellation, and can clean up.
            self._future.remove_done_callback(self._cancel_slot)
            self._future.set_exception(Abandoned())


def _printable(text: str) -> str:
    """The text, cut to `PROGRESS_TEXT` characters that every store can keep."""
    if len(text) > PROGRESS_TEXT:
        text = text[: PROGRESS_TEXT - 1] + "…"
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return text.replace("\0", " ")


current_run: ContextVar[Run] = cast("ContextVar[Run]", under_way)


def current_job() -> Run:
    """The run of the job that calls this function, in a coroutine, a thread or a child process."""
    run = current_run.get(None)
    if run is None:
        raise HeadraceError("current_job() was called outside of a job")
    return run
