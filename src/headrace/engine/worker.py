"""A worker: starts the services, and stops them in an order that loses nothing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from types import TracebackType

import msgspec

from headrace.core.backend import CancelOrder, DueOrder, LeaseOrder, Order, PauseOrder, Renewal, ScheduleOrder
from headrace.core.claim import Claim
from headrace.core.clock import SECOND
from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.message import Source, Stream
from headrace.core.outcome import Released, Verdict
from headrace.core.record import RunningJob, WorkerInfo
from headrace.core.signals import (
    CleanupFailed,
    LeaseLost,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)

from .announcer import Announcer
from .burst import until_drained
from .emitter import Emitter
from .executor import Executor, Finished
from .failure import described
from .fetcher import Fetcher
from .holdings import Holdings
from .home import Home
from .identity import host_name, new_identity
from .judge import Judge
from .keeper import Keeper
from .leases import Leases
from .maintenance import Maintenance
from .process_signals import StopSignals
from .registry import Registry
from .reporter import Reporter
from .resources import Resources
from .run import Run
from .service import Service
from .settler import Settler
from .slots import STUBBORN, Slots
from .ticker import Ticker

#: Seconds that the last writes of a stopping worker may take; what is not written by then is recovered.
LAST_WRITES = 5.0

#: Buffered claims older than this many seconds are handed back: the pace fell, others may be idle.
HOARDED = 0.25

#: Running jobs that a worker names in its announcement.
NAMED_RUNNING = 100


class WorkerOptions(msgspec.Struct, frozen=True):
    """What a worker was asked for, checked."""

    queues: tuple[str, ...]
    concurrency: int
    children: int
    lease: float
    grace: float
    max_payload: int
    mark_ttl: float


class Worker:
    """Runs the jobs of some queues in this event loop.

    `async with` it, or `run()` it until a signal. It may be started once.
    """

    def __init__(self, options: WorkerOptions, *, home: Home, registry: Registry, emitter: Emitter) -> None:
        self.id = new_identity()
        self.options = options
        self._home = home
        self._registry = registry
        self._emitter = emitter
        self._sources = tuple(Source(Stream("queue", name)) for name in options.queues)
        self._leases = Leases(self._sources, options.lease)
        self._holdings = Holdings()
        self._announcer = Announcer(emitter, worker=self.id)
        self._started_us = 0
        self._processed = 0
        self._released = 0
        self._hurry = asyncio.Event()
        self._stopped = asyncio.Event()
        self._state = "new"
        self._fires = True  # its schedules
        self._silence: Callable[[], None] = lambda: None
        self._resources = Resources(
            lifespan=registry.lifespan,
            announce=lambda name, error: emitter.emit(CleanupFailed(self.id, name, described(error))),
        )

    @property
    def processed(self) -> int:
        """How many jobs this worker brought to an end, one way or another."""
        return self._processed

    @property
    def running(self) -> int:
        """How many jobs are in a handler now."""
        return len(self._executor.running) if self._state != "new" else 0

    @property
    def last_poll(self) -> float:
        """When a claim last succeeded, in seconds since 1970; 0: not yet."""
        return self._fetcher.polled_at if self._state != "new" else 0.0

    async def __aenter__(self) -> Worker:
        if self._state != "new":
            raise ConfigurationError("a worker can be started once; ask app.worker() for another")
        await self._home.move_here()
        await self._home.call(self._start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A cancellation does not cut the leaving short, but takes the grace away; then it goes on its way.
        stopping = asyncio.get_running_loop().create_task(self.stop())
        cancelled: asyncio.CancelledError | None = None
        while not stopping.done():
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError as cancellation:
                self._hurry.set()
                cancelled = cancellation
        stopping.result()
        if cancelled is not None:
            raise cancelled

    async def run(self, *, burst: bool = False) -> None:
        """Work until SIGTERM or SIGINT; a second one cuts the grace short. With `burst`, until nothing is
        queued, running, retrying or due; schedules do not fire."""
        asked = asyncio.Event()
        self._fires = not burst
        with StopSignals(first=asked.set, second=self._hurry.set):
            async with self:
                if burst:
                    await _first_of(asked.wait(), self._until_drained())
                else:
                    await asked.wait()

    async def stop(self) -> None:
        """Stop as at the first SIGTERM, in this order:

        1. claim and fire no more, so that nothing new comes in;
        2. hand buffered claims back at once, so that others start them;
        3. give running jobs the grace to end, while leases are renewed and outcomes written;
        4. cancel what still runs and hand it back, at no cost to it;
        5. write the last outcomes, and only then stop renewing: until it is written it is ours;
        6. end the timers and the slots, leave the lifespan, and take the worker's name off the list.
        """
        if self._state != "running":
            if self._state == "stopping":
                await self._stopped.wait()
            return
        self._state = "stopping"
        self._emitter.emit(WorkerStopping(self.id, self.running, self.options.grace))
        await self._fetcher.stop()
        await self._ticker.stop()
        self._hand_back(self._slots.take_back())
        await _first_of(self._slots.until_quiet(self.options.grace), self._hurry.wait())
        await self._interrupt_all()
        await self._settler.flushed(LAST_WRITES)
        await self._keeper.stop()
        await self._balancer.stop()
        await self._reporter.stop()
        await self._maintenance.stop()
        await self._slots.stop()
        await self._settler.stop()
        self._silence()
        await self._executor.close()
        await self._resources.close(self._hurry)
        await self._retire()
        self._home.leave(self)
        self._state = "stopped"
        self._stopped.set()
        self._emitter.emit(WorkerStopped(self.id, self._processed, self._released))

    async def _start(self) -> None:
        backend = self._backend = self._home.backend
        options = self.options
        await self._leases.ask_for(backend, self._emitter)
        await self._resources.open()
        self._build()
        self._started_us = round(time.time() * SECOND)
        self._home.enter(self)
        self._silence = backend.listen(self._obey)
        self._slots.start()
        self._settler.start()
        self._keeper.start()
        self._maintenance.start()
        self._balancer.start()
        self._reporter.start()
        self._fetcher.start()
        if self._fires:
            self._ticker.start()
        self._state = "running"
        self._emitter.emit(
            WorkerStarted(self.id, options.queues, options.concurrency, options.lease, backend.description)
        )

    def _build(self) -> None:
        options, backend, emitter = self.options, self._backend, self._emitter
        self._judge = Judge(
            consumer=self.id,
            max_payload=options.max_payload,
            mark_ttl=options.mark_ttl,
            clock_us=self._holdings.store_clock_us,
        )
        self._executor = Executor(
            registry=self._registry,
            emitter=emitter,
            judge=self._judge,
            consumer=self.id,
            max_payload=options.max_payload,
            concurrency=options.concurrency,
            children=options.children,
            clock_us=self._holdings.store_clock_us,
            resources=self._resources,
        )
        self._settler = Settler(backend, emitter=emitter, written=self._written)
        self._slots = Slots(options.concurrency, executor=self._executor, finish=self._finish)
        self._fetcher = Fetcher(
            backend,
            self._sources,
            consumer=self.id,
            slots=self._slots,
            holdings=self._holdings,
            unwritten=self._settler.__len__,
            emitter=emitter,
        )
        self._keeper = Keeper(
            backend.renewer(),
            holdings=self._holdings,
            lease=options.lease,
            emitter=emitter,
            report=self._heed_renewals,
        )
        self._maintenance = Maintenance(
            backend,
            self._sources,
            lease=options.lease,
            emitter=emitter,
            describe=self._describe,
            paused=self._heed_pauses,
            leases=self._leases.heed,
        )
        self._leases.followed_by(self._keeper.follow, self._maintenance.follow)
        self._reporter = Reporter(backend, running=self._executor.running, emitter=emitter)
        self._ticker = Ticker(backend, self._sources, self._registry.schedules.values(), emitter=emitter)
        self._balancer = Service("balancer", self._unhoard, emitter=emitter)

    def _finish(self, finished: Finished) -> None:
        """A slot is done with a claim."""
        if self._state != "running" and finished.claim not in self._holdings:
            return  # it was handed back over the head of a handler that would not end
        self._settler.put(finished)
        if self._fetcher.hungry:
            self._fetcher.room_made()

    def _written(self, finished: Finished, verdict: Verdict, doubtful: bool) -> None:
        """The store has answered. `doubtful`: an earlier try may have been carried out unseen."""
        self._holdings.drop(finished.claim)
        if isinstance(finished.outcome, Released):
            self._released += 1
        else:
            self._processed += 1
        if finished.claim.suspect:
            self._fetcher.suspect_ended()
        if self._fetcher.hungry:
            self._fetcher.room_made()
        self._announcer.settled(finished, verdict, doubtful)

    def _hand_back(self, claims: list[Claim]) -> None:
        for claim in claims:
            self._settler.put(Finished(claim, self._judge.released(claim)))

    async def _unhoard(self) -> float | None:
        ready = self._slots.ready
        if ready and self._holdings.age(ready[0]) > HOARDED:
            self._hand_back(self._slots.take_back())
        return HOARDED / 2

    async def _interrupt_all(self) -> None:
        for run in list(self._executor.running.values()):
            run.interrupt("shutdown")
            run.abandon()
        if not await self._slots.until_quiet(STUBBORN):
            # Coroutines that will not be cancelled are left behind, and what they do later is ignored.
            self._hand_back(list(self._executor.running))

    async def _retire(self) -> None:
        try:
            await self._backend.retire(self._sources, self.id)
        except BackendUnavailable:
            pass  # the store is away: it forgets this worker by itself

    def _obey(self, order: Order) -> None:
        match order:
            case CancelOrder(stream=stream, id=id):
                self._cancel(stream, id)
            case PauseOrder(stream=stream, paused=True):
                self._heed_pauses(frozenset({stream}))
            case PauseOrder():
                self._backend.wake(self.id)
            case DueOrder():
                self._maintenance.something_is_due()
            case LeaseOrder(stream=stream, lease_us=lease_us):
                self._leases.heed({stream: lease_us})
            case ScheduleOrder():
                self._ticker.poke()

    def _cancel(self, stream: Stream, id: str) -> None:
        for claim, run in list(self._executor.running.items()):
            if claim.id == id and claim.source.stream == stream:
                run.interrupt("cancelled")
        # One that is only buffered is handed back: the store ends it there and then.
        self._hand_back(self._slots.take_back(lambda claim: claim.id == id and claim.source.stream == stream))

    def _heed_pauses(self, paused: frozenset[Stream]) -> None:
        if paused and self._slots.ready:
            self._hand_back(self._slots.take_back(lambda claim: claim.source.stream in paused))

    def _heed_renewals(self, renewals: list[tuple[Claim, Renewal]]) -> None:
        for claim, renewal in renewals:
            run = self._executor.running.get(claim)
            if renewal is Renewal.CANCELLED:
                self._cancel(claim.source.stream, claim.id)
            elif run is not None:
                # Still in a handler, so no settlement under way explains it: the lease is really gone.
                self._lost(run)
            elif self._slots.take_back(lambda buffered, lost=claim: buffered is lost):  # type: ignore[misc]
                self._holdings.drop(claim)

    def _lost(self, run: Run) -> None:
        if run.interruption != "lost":  # each renewal says so until the handler has ended
            run.interrupt("lost")
            self._emitter.emit(LeaseLost(run.id, run.task, run.queue, worker=self.id))

    def _describe(self) -> WorkerInfo:
        runs = list(self._executor.running.values())[:NAMED_RUNNING]
        return WorkerInfo(
            consumer=self.id,
            host=host_name(),
            pid=os.getpid(),
            started_us=self._started_us,
            queues=self.options.queues,
            concurrency=self.options.concurrency,
            polled_us=round(self._fetcher.polled_at * SECOND),
            running=tuple(RunningJob(run.id, run.task, run.claim.claimed_us) for run in runs),
        )

    async def _until_drained(self) -> None:
        await until_drained(
            self._backend, self._sources, slots=self._slots, settler=self._settler, holdings=self._holdings
        )


async def _first_of(*awaitables: Awaitable[object]) -> None:
    """Wait until one of them is done; the others are cancelled. Errors are raised."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
