"""The worker: starts its services, and stops them in an order that loses no message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType

from headrace.core.errors import ConfigurationError
from headrace.core.signals import BackendError, WorkerStarted, WorkerStopped, WorkerStopping
from headrace.engine.app_loop.app_loop import AppLoop
from headrace.engine.app_loop.store_wait import waiting_for_store
from headrace.engine.producing.identity import new_identity
from headrace.engine.running.interrupts import guard_tasks
from headrace.engine.running.slots import STUBBORN

from .build import WorkerParts, WorkerPlan, build
from .draining import until_drained
from .emitter import Emitter
from .options import WorkerOptions
from .process_signals import StopSignals
from .registry import Registry
from .service import carried_through, first_of
from .shutdown import QUICK_ALL, QUICK_STEP, Shutdown
from .subscription import Subscription

#: Seconds for the last writes of a stopping worker. Recovery handles what is not written by then.
LAST_WRITES = 5.0


class Worker:
    """Runs the jobs of some queues, and handles the events of some topics, in this event loop.

    Use `async with`, or `run()`, which works until a signal. A worker can be started once.
    """

    def __init__(
        self,
        options: WorkerOptions,
        *,
        app_loop: AppLoop,
        registry: Registry,
        emitter: Emitter,
        subscriptions: Sequence[Subscription] = (),
    ) -> None:
        self.id: str = new_identity()
        self.options = options
        self.subscriptions = subscriptions
        self._app_loop = app_loop
        self._registry = registry
        self._emitter = emitter
        self._built: WorkerParts | None = None
        self._hurry = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self._state = "new"
        self._fires = True  # whether the worker fires schedules
        self._end_listening: Callable[[], None] = lambda: None
        self._unguard: Callable[[], None] = lambda: None

    @property
    def _parts(self) -> WorkerParts:
        """The parts of the worker. They exist once the worker is prepared."""
        assert self._built is not None
        return self._built

    @property
    def processed(self) -> int:
        """How many jobs and events this worker has ended, with any outcome."""
        parts = self._built
        return 0 if parts is None else parts.settler.processed + parts.readers.handled

    @property
    def running(self) -> int:
        """How many jobs are in a handler now."""
        return 0 if self._built is None else len(self._built.held.running)

    @property
    def last_poll(self) -> float:
        """When a claim last succeeded, or was not needed because every slot was taken. Seconds since 1970;
        0: not yet."""
        return 0.0 if self._built is None else self._built.readers.polled_at

    @property
    def renewals(self) -> int:
        """How many leases this worker has renewed."""
        return 0 if self._built is None else self._built.lease_renewal.renewed

    async def __aenter__(self) -> Worker:
        if self._state != "prepared":
            await self._prepare()
        await self._start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A cancellation does not interrupt the stop. It only ends the grace.
        await carried_through(self.stop(), self._hurry.set)

    async def run(self, *, burst: bool = False) -> None:
        """Work until SIGTERM or SIGINT; a second signal ends the grace. With `burst`, work until nothing is
        queued, running, retrying or due; schedules do not fire. Waits up to a minute for a store that cannot
        be reached yet."""
        asked = asyncio.Event()
        self._fires = not burst
        with StopSignals(first=asked.set, second=self._hurry.set):
            await first_of(self._prepare(), asked.wait())
            if self._state == "new":
                return  # a signal came before the store could be reached
            async with self:
                if burst:
                    await first_of(asked.wait(), until_drained(self._parts))
                else:
                    await asked.wait()

    async def stop(self) -> None:
        """Stop as at the first SIGTERM, in this order:

        1. stop claiming and firing schedules, so that nothing new comes in;
        2. hand buffered claims back at once, so that other workers start them;
        3. let running jobs end within the grace, while leases are renewed and outcomes are written;
        4. cancel jobs that still run, and hand them back; this uses up no retry;
        5. write the last outcomes, and only then stop renewing: until then this worker holds the claims;
        6. end the timers and the slots, leave the lifespan, and remove the worker from the store's list.

        The stop always completes. A caller that is cancelled, or that calls a second time, only ends the
        grace. Then each step gets a short time, and recovery handles what the store did not take by then.
        """
        if self._state not in ("running", "stopping"):
            return
        stopping = self._stopping
        if stopping is None:
            stopping = self._stopping = self._begin_stop()
        else:
            self._hurry.set()
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            self._hurry.set()
            raise

    def _begin_stop(self) -> asyncio.Task[None]:
        self._state = "stopping"
        self._parts.in_flight.stopping = True
        stopping = asyncio.get_running_loop().create_task(self._stop(), name="headrace stop")
        stopping.add_done_callback(self._stop_ended)
        return stopping

    def _stop_ended(self, stopping: asyncio.Task[None]) -> None:
        """Begin the stop again, without grace, when it was cancelled before its first step. This happens
        when everything on the loop is cancelled."""
        if stopping.cancelled():
            self._hurry.set()
            self._stopping = self._begin_stop()

    async def _stop(self) -> None:
        self._emitter.emit(WorkerStopping(self.id, self.running, self.options.grace))
        parts, shutdown = self._parts, Shutdown(self._hurry, self._stop_failed)
        for part in parts.intake:
            await shutdown.take(part.stop)
        parts.in_flight.hand_back(parts.slots.take_back(parts.readers.may_be_handed_back))
        await shutdown.take(self._until_quiet)
        await shutdown.take(self._interrupt_all, 2 * STUBBORN)
        await shutdown.take(lambda: parts.in_flight.flushed(LAST_WRITES))
        for part in (*parts.duties, *parts.path):
            await shutdown.take(part.stop)
        parts.acks.close()
        self._end_listening()
        self._unguard()
        await shutdown.take(parts.executor.close)
        await shutdown.take(lambda: parts.resources.close(self._hurry), QUICK_ALL)
        await shutdown.take(parts.heartbeat.leave)
        self._app_loop.unregister_user(self.stop)
        self._registry.running.discard(self)
        self._state = "stopped"
        self._emitter.emit(WorkerStopped(self.id, self.processed, parts.settler.released))

    def _stop_failed(self, error: BaseException) -> None:
        self._emitter.emit(BackendError("shutdown", f"{type(error).__name__}: {error}", 0.0))

    async def _until_quiet(self) -> None:
        await first_of(self._parts.slots.until_quiet(self.options.grace), self._hurry.wait())

    async def _interrupt_all(self) -> None:
        parts = self._parts
        for run in list(parts.held.running.values()):
            run.interrupt("shutdown")
            run.abandon()
        if not await parts.slots.until_quiet(QUICK_STEP if self._hurry.is_set() else STUBBORN):
            # Some coroutines do not end when cancelled. The worker leaves them, and ignores what they return.
            parts.in_flight.hand_back(list(parts.held.running))

    async def _prepare(self) -> None:
        """Check that the store accepts the work, and join the groups. Waits for a store that is unreachable
        or that refuses."""
        if self._state != "new":
            raise ConfigurationError("a worker can be started once; ask app.worker() for another")
        with waiting_for_store(self._emitter):
            await self._app_loop.open_here()
            parts = self._built = build(self._plan(), self._app_loop.backend)
            self._registry.running.add(self)
            try:
                await parts.leases.ask_for(parts.store, self._emitter)
                await parts.subscriptions.join()
            except BaseException:
                await self._take_back()
                raise
        self._state = "prepared"

    def _plan(self) -> WorkerPlan:
        return WorkerPlan(
            self.id, self.options, self._registry, self.subscriptions, self._emitter, self._fires
        )

    async def _take_back(self) -> None:
        """Undo the preparation. Nothing is started yet, and the caller may try again."""
        executor = self._parts.executor
        self._state, self._built = "new", None
        self._registry.running.discard(self)
        await executor.close()

    async def _start(self) -> None:
        parts, options = self._parts, self.options
        try:
            await parts.resources.open()
        except BaseException:
            await self._take_back()
            raise
        self._app_loop.register_user(self.stop)
        self._end_listening = parts.store.listen(parts.control.handle)
        self._unguard = guard_tasks()
        for part in (*parts.path, *parts.duties, *parts.intake):
            part.start()
        self._state = "running"
        store, topics = parts.store.description, tuple(map(str, self.subscriptions))
        started = WorkerStarted(self.id, options.queues, options.concurrency, options.lease, store, topics)
        self._emitter.emit(started)
