"""Claim → outcome, in named steps. No I/O but the user's own function."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import Any

import msgspec

from headrace.core.claim import Claim
from headrace.core.errors import PayloadError
from headrace.core.message import ENVELOPE_ROOM, ENVELOPE_VERSION, Envelope, decode_envelope
from headrace.core.outcome import DeadReason, Expired, Failure
from headrace.core.signals import JobStarted, ThreadOverdue

from .deadlines import Deadlines
from .desk import Desk
from .emitter import Emitter
from .finished import Finished
from .judge import Judge
from .pipe import Assignment, Raised
from .processes import EncodedResult, Processes, raised_here
from .registry import Handler, Registry
from .resources import Resources
from .run import Run, current_run
from .suspension import NOT_CLOSING, Suspension
from .threads import Threads


class Executor:
    """Runs claims. The slots that call it share what is below: who is running, threads, deadlines."""

    def __init__(
        self,
        *,
        registry: Registry,
        emitter: Emitter,
        judge: Judge,
        consumer: str,
        max_payload: int,
        concurrency: int,
        children: int,
        clock_us: Callable[[Claim], int],
        desk: Desk,
        resources: Resources | None = None,
    ) -> None:
        self.running: dict[Claim, Run] = {}
        self.on_suspend: Callable[[], None] = lambda: None
        self.desk = desk
        self._registry = registry
        self._find = registry.find
        self._folded = registry.fold(self._call)
        self._emitter = emitter
        self.judge = judge
        self._consumer = consumer
        self._max_body = max_payload + ENVELOPE_ROOM
        self._max_payload = max_payload
        self._clock_us = clock_us
        self._resources = resources
        self._threads = Threads(concurrency)
        self._processes = Processes(children)
        self._deadlines = Deadlines(self._strike)

    async def run(self, claim: Claim, slot: asyncio.Task[None]) -> Finished:
        """Decode, find, run, judge. An error of our own is an outcome too: no claim is held and never
        settled."""
        try:
            run = self.prepare(claim)
            return await self.carry_out(run, slot) if isinstance(run, Run) else run
        except Exception as error:
            return self.broken(claim, error)

    def broken(self, claim: Claim, error: Exception) -> Finished:
        """The claim came to nothing because of us."""
        outcome, failure = self.judge.broken(claim, error)
        return Finished(claim, outcome, failure=failure)

    async def carry_out(self, run: Run, slot: asyncio.Task[None]) -> Finished:
        """Run through the middleware, and judge."""
        claim = run.claim
        self.running[claim] = run
        current_run.set(run)
        self._announce_start(run)
        began = time.perf_counter()
        failure: Failure | None = None
        try:
            value = await self._perform(run, slot)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            outcome, failure = self.judge.raised(run, error)
            if run.handler.batch:
                run.error = error
        else:
            if run.handler.batch:
                run.value = value
            if run.interruption == "timeout" and run.handler.run_in == "thread":
                outcome, failure = self.judge.overdue(run)
            else:
                outcome = self.judge.returned(run, value)
        finally:
            run.ended = True
            del self.running[claim]
        if slot.cancelling() or slot._must_cancel:  # type: ignore[attr-defined]
            await _cleanse(slot)
        seconds = time.perf_counter() - began
        return Finished(claim, outcome, run.envelope.task, seconds, failure, run.interruption == "lost")

    async def close(self) -> None:
        self._deadlines.close()
        self._threads.close()
        await self._processes.close()

    def prepare(self, claim: Claim) -> Run | Finished:
        """Decode and find: a run that can be carried out, or how it ended without one."""
        body = claim.body
        if len(body) > self._max_body:
            return self._refuse(claim, DeadReason.OVERSIZED, f"the message has {len(body):,} bytes")
        try:
            envelope = decode_envelope(body)
        except (msgspec.DecodeError, RecursionError, MemoryError) as error:
            return self._undecodable(claim, error)
        if envelope.version != ENVELOPE_VERSION:
            return self._of_another_version(claim, envelope.version, envelope.task)
        stream = claim.source.stream
        handler = self._find(envelope.task) if stream.kind == "queue" else self._serving(claim)
        if handler is None:
            text = (
                f"no task called {envelope.task!r} is registered here"
                if stream.kind == "queue"
                else f"nobody here is subscribed as {stream.name}"
            )
            outcome = self.judge.unknown(claim, DeadReason.UNKNOWN_TASK, text)
            return Finished(claim, outcome, envelope.task)
        return self._fitted(claim, envelope, handler)

    def _fitted(self, claim: Claim, envelope: Envelope, handler: Handler) -> Run | Finished:
        if len(envelope.payload) > self._max_payload:
            text = f"the payload has {len(envelope.payload):,} bytes, more than {self._max_payload:,}"
            return self._refuse(claim, DeadReason.OVERSIZED, text, envelope.task)
        if claim.expires_us and not _began(claim) and self._clock_us(claim) >= claim.expires_us:
            # Of an event that came too late nothing is kept: nobody waits for its end.
            mark_us = self.judge.mark_us if claim.source.stream.kind == "queue" else 0
            return Finished(claim, Expired(mark_us), envelope.task)
        try:
            if handler.fit is not None:
                run = Run(claim, envelope, handler, (), {}, self._resources)
                run.args = handler.fit(run, self.desk)
                return run
            args, kwargs = handler.decode(envelope.payload)
        except PayloadError as error:
            return self._refuse(claim, DeadReason.INVALID, str(error), envelope.task)
        except Exception as error:  # a type of the user's may raise whatever it likes when it is made
            text = f"the arguments cannot be made: {type(error).__name__}: {error}"
            return self._refuse(claim, DeadReason.INVALID, text, envelope.task)
        return Run(claim, envelope, handler, args, kwargs, self._resources)

    def _serving(self, claim: Claim) -> Handler | None:
        subscription = self._registry.serving(claim.source)
        return None if subscription is None else subscription.handler

    async def _perform(self, run: Run, slot: asyncio.Task[None]) -> Any:
        handler = run.handler
        overrides = run.envelope.overrides
        timeout = handler.timeout if overrides is None or overrides.timeout is None else overrides.timeout
        if timeout:
            run.begin_timeout(timeout)
            self._deadlines.watch(run, timeout)
        if self._folded is not None:
            return await self._drive(run, slot, _coroutine(self._folded(run)))
        if handler.run_in == "loop":
            return await self._drive(run, slot, handler.function(*run.args, **run.kwargs))
        if handler.run_in == "thread":
            return await self._in_thread(run)
        run.begin_on_loop(slot)
        return await self._in_process(run)

    async def _drive(self, run: Run, slot: asyncio.Task[None], coroutine: Coroutine[Any, Any, Any]) -> Any:
        # The first step by hand: a handler that never suspends costs no trip through the event loop.
        context = copy_context()
        run.begin_on_loop(slot)
        try:
            yielded = context.run(coroutine.send, None)
        except StopIteration as stop:
            return stop.value
        except GeneratorExit as error:
            raise RuntimeError(NOT_CLOSING) from error
        self.on_suspend()
        return await Suspension(coroutine, context, yielded)

    async def _in_thread(self, run: Run) -> Any:
        future = self._threads.submit(copy_context(), run.handler.function, run.args, run.kwargs)
        run.begin_in_thread(future)
        self.on_suspend()
        return _checked_value(run, await future)

    async def _in_process(self, run: Run) -> EncodedResult:
        self.on_suspend()
        child = await self._processes.take()
        run.begin_in_process(child.kill)
        try:
            answer = await child.do(
                _assignment(run), lambda said: run.progress_sync(said.fraction, said.text)
            )
        finally:
            await self._processes.give_back(child)
        if isinstance(answer, Raised):
            raise raised_here(answer)
        return EncodedResult(answer.value, answer.note)

    async def _call(self, run: Run) -> object:
        """The innermost of the middleware: the user's function."""
        match run.handler.run_in:
            case "loop":
                return await run.handler.function(*run.args, **run.kwargs)
            case "thread":
                return await self._in_thread(run)
            case "process":
                result = await self._in_process(run)
                return result if result.value is None else run.handler.decode_result(result.value)

    def _announce_start(self, run: Run) -> None:
        if self._emitter.wants(JobStarted) and run.claim.source.stream.kind == "queue":
            names = (run.id, run.task, run.queue)
            waited = max(0, run.claim.claimed_us - run.envelope.enqueued_us) / 1e6
            self._emitter.emit(
                JobStarted(*names, run.attempt, self._consumer, waited=waited, late=_lateness(run))
            )

    def _strike(self, run: Run) -> None:
        run.interrupt("timeout")
        if run.in_thread:
            self._emitter.emit(ThreadOverdue(run.id, run.task, run.queue, timeout=run.timeout or 0.0))

    def _undecodable(self, claim: Claim, error: BaseException) -> Finished:
        version = _version_of(claim.body)
        if version is not None and version != ENVELOPE_VERSION:
            return self._of_another_version(claim, version, "")
        return self._refuse(claim, DeadReason.UNDECODABLE, f"{type(error).__name__}: {error}")

    def _of_another_version(self, claim: Claim, version: int, task: str) -> Finished:
        text = f"the message has version {version}; this worker reads version {ENVELOPE_VERSION}"
        return Finished(claim, self.judge.unknown(claim, DeadReason.UNKNOWN_VERSION, text), task)

    def _refuse(self, claim: Claim, reason: DeadReason, text: str, task: str = "") -> Finished:
        outcome = self.judge.refused(claim, reason, text)
        return Finished(claim, outcome, task, failure=outcome.failure)


def _coroutine(awaitable: object) -> Coroutine[Any, Any, Any]:
    """What the outermost middleware gave, as something that can be driven by hand."""
    if inspect.iscoroutine(awaitable):
        return awaitable
    if inspect.isawaitable(awaitable):
        return _awaited(awaitable)
    raise TypeError(f"middleware must be `async def` or give an awaitable, not {awaitable!r}")


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _began(claim: Claim) -> bool:
    """Whether a handler has had it before: what was started in time does not expire."""
    state = claim.state
    return state.attempt > 1 or any(trouble.what == "snoozed" for trouble in state.trail)


def _lateness(run: Run) -> float | None:
    """Seconds since the job could first run; None: it has been in a handler before."""
    if _began(run.claim):
        return None
    overrides = run.envelope.overrides
    meant_us = run.envelope.enqueued_us if overrides is None or not overrides.due_us else overrides.due_us
    return max(0, run.claim.claimed_us - meant_us) / 1e6


def _assignment(run: Run) -> Assignment:
    return Assignment(
        module=run.handler.function.__module__,
        task=run.task,
        queue=run.queue,
        id=run.id,
        body=run.claim.body,
        state=run.claim.state,
        timeout=run.timeout,
    )


def _checked_value(run: Run, value: Any) -> Any:
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError(
            f"{run.task} returned a coroutine that nobody awaits: declare the task with `async def`, also "
            "where a decorator wraps it"
        )
    return value


async def _cleanse(slot: asyncio.Task[None]) -> None:
    """Bring the slot's task back to a clean state: what a handler did to itself must not reach the next."""
    while slot.cancelling():
        slot.uncancel()
    try:
        await asyncio.sleep(0)  # takes a cancellation that was asked for and not yet delivered
    except asyncio.CancelledError:
        pass


def _version_of(body: bytes) -> int | None:
    try:
        decoded = msgspec.msgpack.decode(body)
    except (msgspec.DecodeError, RecursionError, MemoryError):
        return None
    first = decoded[0] if isinstance(decoded, list) and decoded else None
    return first if isinstance(first, int) else None
