"""Runs a claim in named steps, up to its outcome. The user's function does the only I/O."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from math import inf
from time import perf_counter
from typing import Any

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import ENVELOPE_VERSION, decode_envelope
from headrace.core.messages.outcome import DONE, Done, Failure, Outcome
from headrace.core.signals import JobStarted, ThreadOverdue
from headrace.engine.running.calling.interrupts import is_from_terminal
from headrace.engine.running.calling.suspension import NOT_CLOSING, Suspension
from headrace.engine.running.calling.threads import ThreadError, Threads
from headrace.engine.running.children.child_call import ChildCall, EncodedResult, result_of
from headrace.engine.running.children.pool import ChildPool
from headrace.engine.running.job_log.capture import capture

from .deadlines import Deadlines
from .finished import FinishedRun
from .preparation import RunParts, RunPreparation
from .run import Run, Slot, current_run


class Executor:
    """Runs claims. All slots share it, with its running claims, threads and deadlines."""

    def __init__(self, parts: RunParts, preparation: RunPreparation, processes: ChildPool) -> None:
        self.running = parts.held.running
        self.prepare = preparation.prepare
        self.policy = parts.policy
        self._handlers = parts.registry.handlers
        self._folded = parts.registry.fold(self._call)
        self._emitter = parts.emitter
        self._consumer = parts.worker
        self._max_payload = parts.options.max_payload
        self._covers = parts.limits.covers
        self._resources = parts.resources
        self._threads = Threads(parts.options.concurrency)
        self._registry = parts.registry
        self._processes = processes
        self._deadlines = Deadlines(self._time_out)
        self._release_logs = capture() if parts.registry.job_logs else lambda: None
        #: Whether the worker or its event loop ends. Then a cancelled handler has not failed.
        self.ending: Callable[[], bool] = lambda: False

    def begin(self, claim: Claim, slot: Slot) -> FinishedRun | Coroutine[Any, Any, FinishedRun]:
        """Decode the claim, find its handler, run it and decide the outcome. When the handler suspends, it
        returns a coroutine for the rest. An error of the engine is an outcome too, so that every claim is
        settled."""
        try:
            run = self.prepare(claim)
            return run if isinstance(run, FinishedRun) else self._start(run, slot)
        except Exception as error:
            return self.broken(claim, error)

    def run_plain(  # noqa: C901 - one loop without helper functions: their cost matters for quick handlers
        self, ready: deque[Claim], slot: Slot, finished: list[FinishedRun], until: float
    ) -> Coroutine[Any, Any, FinishedRun] | None:
        """A fast version of `begin` for many claims. It goes on as long as the next claim is plain, as nearly
        all are: the run is a coroutine and nothing else. It leaves every other claim, and each that is
        faulty, to `begin`. `test_ways_of_running` compares the two."""
        if self._folded is not None or JobStarted in self._emitter.wanted:
            return None
        handlers, resources, largest = self._handlers, self._resources, self._max_payload
        args: tuple[Any, ...]
        kwargs: dict[str, Any]
        queue, now = None, perf_counter()
        take, end, set_run, task = ready.popleft, finished.append, current_run.set, slot.task
        covers = self._covers
        while ready:
            claim = take()
            if claim.stream is not queue:
                if claim.stream.kind != "queue":
                    break
                queue = claim.stream
            body = claim.body
            try:
                envelope = decode_envelope(body)
                handler = handlers[envelope.task]
                if (
                    (not handler.plain and not (handler.bare and covers(claim, handler)))
                    or envelope.overrides is not None
                    or claim.expires_us
                    or envelope.version != ENVELOPE_VERSION
                    or len(body) > largest
                ):
                    break
                if envelope.payload == handler.nothing:
                    args, kwargs = (), {}
                else:
                    args, kwargs = handler.decode(envelope.payload)
            except Exception:
                break
            # The run is added to `running` only when it suspends: until then no other code can read it.
            run = Run(claim, envelope, handler, args, kwargs, resources)
            set_run(run)
            context = copy_context()
            began = now  # the end of the run before: the time between is too short for a look at the clock
            try:
                coroutine = handler.function(*args, **kwargs) if args or kwargs else handler.function()
                yielded = context.run(coroutine.send, None)
            except StopIteration as stop:
                if handler.result_ttl:
                    end(self._returned(run, stop.value, began))
                    now = perf_counter()
                else:
                    run.ended = True
                    now = perf_counter()
                    end(FinishedRun(claim, DONE, (), None, envelope.task, now - began))
            except BaseException as error:
                end(self._raised(run, error, began))
                now = perf_counter()
            else:
                self.running[claim] = run
                run.begin_on_loop(slot)
                slot.suspended()
                return self._carry_on(run, slot, began, Suspension(coroutine, context, yielded))
            # The handler has cancelled its own task. It never suspended, so it has not seen the cancellation.
            if task._must_cancel:  # type: ignore[attr-defined]
                return _cleansed(slot, finished.pop())
            if now >= until:
                return None
        else:
            return None
        ready.appendleft(claim)
        return None

    def broken(self, claim: Claim, error: Exception) -> FinishedRun:
        """The outcome of a claim that failed because of an error of the engine."""
        outcome, failure = self.policy.broken(claim, error)
        return FinishedRun(claim, outcome, failure=failure)

    async def carry_out(self, run: Run, slot: Slot) -> FinishedRun:
        """Run through the middleware, and decide the outcome."""
        finished = self._start(run, slot)
        return finished if isinstance(finished, FinishedRun) else await finished

    def _start(self, run: Run, slot: Slot) -> FinishedRun | Coroutine[Any, Any, FinishedRun]:
        self.running[run.claim] = run
        current_run.set(run)
        try:
            if JobStarted in self._emitter.wanted and not run.handler.batch:
                self.announce_start(run)
            if run.handler.timeout or run.envelope.overrides is not None:
                self._begin_timeout(run)
        except BaseException:  # of a listener, for example
            self._let_go(run)
            raise
        if self._folded is None and run.handler.run_in == "loop":
            return self._first_step(run, slot)
        return self._carry_on(run, slot, perf_counter(), self._perform(run, slot))

    def _first_step(self, run: Run, slot: Slot) -> FinishedRun | Coroutine[Any, Any, FinishedRun]:
        """Start the handler without a task of its own: a handler that never suspends needs no turn of the
        event loop."""
        context = copy_context()
        run.begin_on_loop(slot)
        began = perf_counter()
        try:
            coroutine = run.handler.function(*run.args, **run.kwargs)
            yielded = context.run(coroutine.send, None)
        except StopIteration as stop:
            finished = self._returned(run, stop.value, began)
        except BaseException as error:
            finished = self._raised(run, error, began)
        else:
            slot.suspended()
            return self._carry_on(run, slot, began, Suspension(coroutine, context, yielded))
        if slot.task.cancelling() or slot.task._must_cancel:  # type: ignore[attr-defined]
            return _cleansed(slot, finished)
        return finished

    def _begin_timeout(self, run: Run) -> None:
        timeout, overrides = run.handler.timeout, run.envelope.overrides
        if overrides is not None and overrides.timeout is not None:
            timeout = overrides.timeout
        if timeout:
            run.begin_timeout(timeout)
            self._deadlines.watch(run, timeout)

    async def _carry_on(self, run: Run, slot: Slot, began: float, rest: Awaitable[Any]) -> FinishedRun:
        try:
            value = await rest
        except GeneratorExit:  # the slot is being closed; the handler did not raise it: see Suspension
            self._let_go(run)
            raise
        except BaseException as error:
            finished = self._raised(run, error, began)
        else:
            finished = self._returned(run, value, began)
        if run.children:
            run.kill_children()  # the middleware did not wait for them
        if slot.task.cancelling() or slot.task._must_cancel:  # type: ignore[attr-defined]
            await _cleanse(slot.task)
        return finished

    def _returned(self, run: Run, value: object, began: float) -> FinishedRun:
        handler, failure = run.handler, None
        outcome: Outcome = DONE
        try:
            overdue = run.interruption == "timeout" and handler.run_in == "thread"
            if handler.batch:
                run.value = value  # `Batches` decides the outcome of each of the list
                run.error = self.policy.timed_out(run) if overdue else None
            elif overdue:
                outcome, failure = self.policy.overdue(run)
            else:
                outcome = self.policy.returned(run, value)
        except Exception as error:
            return self._broke(run, error)
        finally:
            self._let_go(run)
        return _finished(run, outcome, failure, began)

    def _raised(self, run: Run, error: BaseException, began: float) -> FinishedRun:
        if is_from_terminal(error):
            self._let_go(run)
            raise error
        try:
            if isinstance(error, GeneratorExit):
                error = _not_closing(error)
            elif isinstance(error, asyncio.CancelledError) and run.interruption is None and self.ending():
                run.interruption = "shutdown"  # the loop ends, and has cancelled all tasks
            outcome, failure = self.policy.raised(run, error)
            if run.handler.batch:
                run.error = error
        except Exception as ours:
            return self._broke(run, ours)
        finally:
            self._let_go(run)
        return _finished(run, outcome, failure, began)

    def _broke(self, run: Run, error: Exception) -> FinishedRun:
        if run.handler.batch:
            run.error = error
        return self.broken(run.claim, error)

    def _let_go(self, run: Run) -> None:
        run.ended = True
        self.running.pop(run.claim, None)

    async def close(self) -> None:
        self._release_logs()
        self._deadlines.close()
        self._threads.close()
        await self._processes.close()

    async def _perform(self, run: Run, slot: Slot) -> Any:
        """Run the function through the middleware, or in a thread or child process."""
        if self._folded is not None:
            return await self._drive(run, slot, _coroutine(self._folded(run)))
        if run.handler.run_in == "thread":
            return await self._in_thread(run, slot)
        run.begin_on_loop(slot)
        return await self._in_process(run, slot)

    async def _drive(self, run: Run, slot: Slot, coroutine: Coroutine[Any, Any, Any]) -> Any:
        context = copy_context()
        run.begin_on_loop(slot)
        try:
            yielded = context.run(coroutine.send, None)
        except StopIteration as stop:
            return stop.value
        except GeneratorExit as error:
            raise RuntimeError(NOT_CLOSING) from error
        slot.suspended()
        return await Suspension(coroutine, context, yielded)

    async def _in_thread(self, run: Run, slot: Slot) -> Any:
        future = self._threads.submit(copy_context(), run.handler.function, run.args, run.kwargs)
        run.begin_in_thread(future)
        slot.suspended()
        value = await future
        if isinstance(value, ThreadError):
            raise value.take()
        return _checked_value(run, value)

    async def _in_process(self, run: Run, slot: Slot) -> EncodedResult:
        slot.suspended()
        call = ChildCall(run, self._registry, self._begin_timeout)
        self._deadlines.pause(run)  # until the function begins in the child
        run.children += (call,)
        run.delegated = True
        try:
            return result_of(await self._processes.run(call))
        finally:
            run.children = tuple(each for each in run.children if each is not call)
            if run.ends_at == inf and not run.children and not run.ended:
                self._begin_timeout(run)  # the function never began, but the middleware goes on

    async def _call(self, run: Run) -> object:
        """Call the user's function, inside of all middleware."""
        match run.handler.run_in:
            case "loop":
                return await run.handler.function(*run.args, **run.kwargs)
            case "thread":
                return await self._in_thread(run, run.slot)
            case "process":
                result = await self._in_process(run, run.slot)
                return result if result.value is None else run.handler.decode_result(result.value, run.id)

    def announce_start(self, run: Run) -> None:
        """Announce that a job is about to run. A batch announces each of its jobs."""
        if JobStarted in self._emitter.wanted and run.claim.stream.kind == "queue":
            names = (run.id, run.task, run.queue)
            waited = max(0, run.claim.claimed_us - run.envelope.enqueued_us) / 1e6
            self._emitter.emit(
                JobStarted(*names, run.attempt, self._consumer, waited=waited, late=_lateness(run))
            )

    def _time_out(self, run: Run) -> None:
        run.interrupt("timeout")
        if run.in_thread:
            self._emitter.emit(ThreadOverdue(run.id, run.task, run.queue, timeout=run.timeout or 0.0))


def _coroutine(awaitable: object) -> Coroutine[Any, Any, Any]:
    """The awaitable of the outermost middleware as a coroutine, which can be started without a task."""
    if inspect.iscoroutine(awaitable):
        return awaitable
    if inspect.isawaitable(awaitable):
        return _awaited(awaitable)
    raise TypeError(f"middleware must be `async def` or give an awaitable, not {awaitable!r}")


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _lateness(run: Run) -> float | None:
    """Seconds since the job could first run; None: it has been in a handler before."""
    if run.claim.state.begun:
        return None
    overrides = run.envelope.overrides
    meant_us = run.envelope.enqueued_us if overrides is None or not overrides.due_us else overrides.due_us
    return max(0, run.claim.claimed_us - meant_us) / 1e6


def _checked_value(run: Run, value: Any) -> Any:
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError(
            f"{run.task} returned a coroutine that is never awaited: declare the task with `async def`, also "
            "where a decorator wraps it"
        )
    return value


async def _cleanse(task: asyncio.Task[None]) -> None:
    """Remove cancellations from the slot's task: those of one handler must not reach the next handler."""
    while task.cancelling():
        task.uncancel()
    try:
        await asyncio.sleep(0)  # receives a cancellation that was requested and not yet delivered
    except asyncio.CancelledError:
        pass


async def _cleansed(slot: Slot, finished: FinishedRun) -> FinishedRun:
    await _cleanse(slot.task)
    return finished


def _finished(run: Run, outcome: Outcome, failure: Failure | None, began: float) -> FinishedRun:
    seconds, lost = perf_counter() - began, run.interruption == "lost"
    forwards = run.forwards if type(outcome) is Done else ()
    return FinishedRun(run.claim, outcome, forwards, None, run.envelope.task, seconds, failure, lost)


def _not_closing(error: GeneratorExit) -> RuntimeError:
    """The error in place of a GeneratorExit that the handler itself raised: its coroutine is not closed."""
    mistaken = RuntimeError(NOT_CLOSING)
    mistaken.__cause__ = error
    return mistaken
