"""The worker: starts its services, and stops them in an order that loses no message."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING

from headrace.core.errors import ConfigurationError
from headrace.core.limits.paused_tasks import paused_tasks
from headrace.core.signals import BackendError, WorkerStarted, WorkerStopped, WorkerStopping
from headrace.core.topics.topic import TopicRules
from headrace.engine.app_loop.app_loop import AppLoop
from headrace.engine.app_loop.retrying import with_retries
from headrace.engine.app_loop.store_wait import waiting_for_store
from headrace.engine.declared.registry import Registry
from headrace.engine.declared.subscription import Subscription
from headrace.engine.emitter import Emitter
from headrace.engine.producing.identity import new_identity
from headrace.engine.relaying.outbox_source import OutboxSource
from headrace.engine.running.calling.interrupts import guard_tasks
from headrace.engine.service import carried_through, first_of

from .draining import until_drained
from .loop_end import LoopEnd
from .options import WorkerOptions
from .process_signals import StopSignals
from .shutdown import CANCEL_WAIT, QUICK_ALL, QUICK_STEP, Shutdown

if TYPE_CHECKING:
    from .parts import WorkerParts

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
        outboxes: Sequence[OutboxSource] = (),
        topics: Mapping[str, TopicRules] = MappingProxyType({}),
    ) -> None:
        self.id: str = new_identity()
        self.options = options
        self.subscriptions = subscriptions
        self._outboxes = outboxes
        self._topics = topics
        self._app_loop = app_loop
        self._registry = registry
        self._emitter = emitter
        self._built: WorkerParts | None = None
        self._hurry = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self._state = "new"
        self._stopped: Callable[[], None] = lambda: None
        self._fires = True  # whether the worker fires schedules
        self._end_listening: Callable[[], None] = lambda: None
        self._unguard: Callable[[], None] = lambda: None
        self._loop_end: LoopEnd

    def when_stopped(self, listen: Callable[[], None]) -> None:
        """Call `listen` once, when the worker has stopped."""
        self._stopped = listen

    @property
    def _parts(self) -> WorkerParts:
        """The parts of the worker. They exist once the worker is prepared."""
        assert self._built is not None
        return self._built

    @property
    def processed(self) -> int:
        """How many jobs and events this worker has ended, with any outcome."""
        parts = self._built
        return 0 if parts is None else parts.settling.settler.processed + parts.claims.readers.handled

    @property
    def running(self) -> int:
        """How many jobs are in a handler now."""
        return 0 if self._built is None else len(self._built.claims.held.running)

    @property
    def running_names(self) -> list[str]:
        """The task and the id of each job that is in a handler now, the first to start first."""
        runs = [] if self._built is None else self._built.claims.held.running.values()
        return [f"{run.task} {run.id}" for run in runs]

    @property
    def last_poll(self) -> float:
        """When a claim last succeeded, or was not needed because every slot was taken. Seconds since 1970;
        0: not yet."""
        return 0.0 if self._built is None else self._built.claims.readers.polled_at

    @property
    def renewals(self) -> int:
        """How many leases this worker has renewed."""
        return 0 if self._built is None else self._built.upkeep.lease_renewal.renewed

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
        self._parts.claims.in_flight.stopping = True
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
        claims, running = parts.claims, parts.running
        for service in parts.intake.services:
            await shutdown.take(service.stop)
        claims.in_flight.hand_back(running.slots.take_back(claims.readers.may_be_handed_back))
        await shutdown.take(self._until_quiet)
        await shutdown.take(self._interrupt_all, 2 * CANCEL_WAIT)
        await shutdown.take(lambda: claims.in_flight.flushed(LAST_WRITES))
        for service in (*parts.upkeep.services, *parts.path):
            await shutdown.take(service.stop)
        claims.acks.close()
        self._loop_end.close()
        self._end_listening()
        self._unguard()
        await shutdown.take(running.executor.close)
        await shutdown.take(lambda: running.resources.close(self._hurry), QUICK_ALL)
        await shutdown.take(parts.upkeep.heartbeat.leave)
        self._app_loop.unregister_user(self.stop)
        self._registry.running.discard(self)
        self._state = "stopped"
        self._stopped()
        self._emitter.emit(WorkerStopped(self.id, self.processed, parts.settling.settler.released))

    def _stop_failed(self, error: BaseException) -> None:
        self._emitter.emit(BackendError("shutdown", f"{type(error).__name__}: {error}", 0.0))

    async def _until_quiet(self) -> None:
        await first_of(self._parts.running.slots.until_quiet(self.options.grace), self._hurry.wait())

    async def _interrupt_all(self) -> None:
        claims, slots = self._parts.claims, self._parts.running.slots
        for run in list(claims.held.running.values()):
            run.interrupt("shutdown")
            run.abandon()
        if not await slots.until_quiet(QUICK_STEP if self._hurry.is_set() else CANCEL_WAIT):
            # Some coroutines do not end when cancelled. The worker leaves them, and ignores what they return.
            claims.in_flight.hand_back(list(claims.held.running))

    async def _prepare(self) -> None:
        """Check that the store accepts the work, and join the groups. Waits for a store that is unreachable
        or that refuses."""
        if self._state != "new":
            raise ConfigurationError("a worker can be started once; ask app.worker() for another")
        if sys.platform == "win32" and self._registry.has_children:
            raise ConfigurationError(
                "tasks with run_in='process' do not run on Windows: write run_in='thread', or run the worker "
                "on Linux or macOS"
            )
        with waiting_for_store(self._emitter):
            await self._app_loop.open_here()
            parts = self._built = self._build()
            self._registry.running.add(self)
            try:
                await parts.claims.leases.ask_for(parts.store, self._emitter)
                if self._registry.has_constraints:
                    parts.store.demand_limiting()
                await self._registry.limits.check(parts.store)
                await self._registry.limits.declare_to(parts.store, self._emitter)
                await with_retries(lambda: _learn_paused_tasks(parts))
                await parts.intake.subscriptions.join()
            except BaseException:
                await self._take_back()
                raise
        self._state = "prepared"

    def _build(self) -> WorkerParts:
        # Imported here: a program that only enqueues starts faster without the parts of a worker.
        from .build import build
        from .plan import WorkerPlan

        plan = WorkerPlan(
            id=self.id,
            options=self.options,
            store=self._app_loop.backend,
            registry=self._registry,
            subscriptions=self.subscriptions,
            emitter=self._emitter,
            fires=self._fires,
            outboxes=self._outboxes,
            topics=self._topics,
        )
        return build(plan)

    async def _take_back(self) -> None:
        """Undo the preparation. Nothing is started yet, and the caller may try again."""
        executor = self._parts.running.executor
        self._state, self._built = "new", None
        self._registry.running.discard(self)
        await executor.close()

    async def _start(self) -> None:
        parts, options = self._parts, self.options
        try:
            await parts.running.resources.open()
        except BaseException:
            await self._take_back()
            raise
        self._app_loop.register_user(self.stop)
        self._end_listening = parts.store.listen(parts.control.handle)
        self._unguard = guard_tasks()
        self._loop_end = loop_end = LoopEnd()
        parts.claims.policy.loop_ends = lambda: loop_end.seen and self._state != "stopping"
        parts.running.executor.ending = lambda: loop_end.seen or self._state == "stopping"
        for service in (*parts.path, *parts.upkeep.services, *parts.intake.services):
            service.start()
        self._state = "running"
        store, topics = parts.store.description, tuple(map(str, self.subscriptions))
        started = WorkerStarted(self.id, options.queues, options.concurrency, options.lease, store, topics)
        self._emitter.emit(started)


async def _learn_paused_tasks(parts: WorkerParts) -> None:
    """Learn which tasks are paused, before the first claim. After that, each heartbeat brings the answer."""
    limits = await parts.store.limits(counted=False)
    parts.running.limits.pause(paused_tasks(record.figures for record in limits))
