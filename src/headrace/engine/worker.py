"""A worker: starts the services, and stops them in an order that loses nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from headrace.core.claim import Claim
from headrace.core.clock import SECOND, microseconds
from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.message import Source, Stream
from headrace.core.outcome import Verdict
from headrace.core.record import WorkerInfo
from headrace.core.signals import (
    BackendError,
    CleanupFailed,
    LeftTaskFailed,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)

from .accounts import Accounts
from .announcement import announcement
from .announcer import Announcer
from .balancer import Balancer
from .bundle import FinishedBundle, parts_of
from .burst import until_drained
from .carried_through import carried_through
from .desk import Desk
from .emitter import Emitter
from .executor import Executor
from .failure import described
from .fetcher import Fetcher
from .finished import Finished
from .first_of import first_of
from .holdings import Holdings
from .home import Home
from .identity import new_identity
from .interrupts import guard_tasks
from .judge import Judge
from .keeper import Keeper
from .leases import Leases
from .maintenance import Maintenance
from .orders import Orders
from .process_signals import StopSignals
from .registry import Registry
from .reporter import Reporter
from .resources import Resources
from .settler import Settler
from .shutdown import QUICK_ALL, QUICK_STEP, Shutdown
from .slots import STUBBORN, Slots
from .store_wait import waiting_for_store
from .subscribers import Subscribers
from .subscription import Subscription
from .tallier import Tallier
from .ticker import Ticker
from .worker_options import WorkerOptions

#: Seconds that the last writes of a stopping worker may take; what is not written by then is recovered.
LAST_WRITES = 5.0


class Worker:
    """Runs the jobs of some queues, and handles the events of some topics, in this event loop.

    `async with` it, or `run()` it until a signal. It may be started once.
    """

    def __init__(
        self,
        options: WorkerOptions,
        *,
        home: Home,
        registry: Registry,
        emitter: Emitter,
        subscriptions: Sequence[Subscription] = (),
    ) -> None:
        self.id: str = new_identity()
        self.options = options
        self._home = home
        self._registry = registry
        self._emitter = emitter
        self.subscriptions = subscriptions
        self._queues = tuple(Source(Stream("queue", name)) for name in options.queues)
        self._sources = list(self._queues)  # and the groups that the subscribers join
        self._topics: list[Source] = []  # where delayed events wait
        self._leases = Leases(self._sources, options.lease)
        self._holdings = Holdings()
        self._announcer = Announcer(emitter, worker=self.id)
        self._started_us = 0
        self._hurry = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self._state = "new"
        self._fires = True  # its schedules
        self._silence: Callable[[], None] = lambda: None
        self._unguard: Callable[[], None] = lambda: None
        self._resources = Resources(
            lifespan=registry.lifespan,
            announce=lambda name, error: emitter.emit(CleanupFailed(self.id, name, described(error))),
            left_behind=lambda run, error: emitter.emit(
                LeftTaskFailed(run.id, run.task, run.queue, error=described(error))
            ),
        )

    @property
    def processed(self) -> int:
        """How many jobs and events this worker brought to an end, one way or another."""
        return self._accounts.processed + self._subscribers.handled if self._state != "new" else 0

    @property
    def running(self) -> int:
        """How many jobs are in a handler now."""
        return len(self._executor.running) if self._state != "new" else 0

    @property
    def last_poll(self) -> float:
        """When a claim last succeeded, or was not needed since every slot is taken, in seconds since 1970; 0:
        not yet."""
        return max(self._fetcher.polled_at, self._subscribers.polled_at) if self._state != "new" else 0.0

    @property
    def renewals(self) -> int:
        """How many leases this worker has renewed."""
        return self._keeper.renewed if self._state != "new" else 0

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
        # A cancellation does not cut the leaving short, but takes the grace away.
        await carried_through(self.stop(), self._hurry.set)

    async def run(self, *, burst: bool = False) -> None:
        """Work until SIGTERM or SIGINT; a second one cuts the grace short. With `burst`, until nothing is
        queued, running, retrying or due; schedules do not fire. A store that is not there yet is waited for,
        for up to a minute."""
        asked = asyncio.Event()
        self._fires = not burst
        with StopSignals(first=asked.set, second=self._hurry.set):
            await first_of(self._prepare(), asked.wait())
            if self._state == "new":
                return  # asked to stop before the store was there
            async with self:
                if burst:
                    await first_of(asked.wait(), self._until_drained())
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

        However this is left, the stop is completed: a caller that is cancelled, or calls a second time, only
        takes the grace away. Then the store has a moment for each step, and what it did not take by then is
        left to recovery.
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
        stopping = asyncio.get_running_loop().create_task(self._stop(), name="headrace stop")
        stopping.add_done_callback(self._stop_ended)
        return stopping

    def _stop_ended(self, stopping: asyncio.Task[None]) -> None:
        """Cancelled before its first step, with all else on the loop: it is begun anew, in a hurry."""
        if stopping.cancelled():
            self._hurry.set()
            self._stopping = self._begin_stop()

    async def _stop(self) -> None:
        self._emitter.emit(WorkerStopping(self.id, self.running, self.options.grace))
        shutdown = Shutdown(self._hurry, self._stop_failed)
        for step in (self._fetcher.stop, self._stop_reading, self._ticker.stop):
            await shutdown.take(step)
        self._hand_back(self._slots.take_back(self._subscribers.may_be_handed_back))
        await shutdown.take(self._until_quiet)
        await shutdown.take(self._interrupt_all, 2 * STUBBORN)
        await shutdown.take(lambda: self._settler.flushed(LAST_WRITES))
        for step in (
            *(self._keeper.stop, self._balancer.stop, self._reporter.stop, self._subscribers.stop),
            *(self._maintenance.stop, self._slots.stop, self._settler.stop, self._tallier.stop),
        ):
            await shutdown.take(step)
        self._desk.close()
        self._silence()
        self._unguard()
        await shutdown.take(self._executor.close)
        await shutdown.take(lambda: self._resources.close(self._hurry), QUICK_ALL)
        await shutdown.take(self._retire)
        self._home.move_out(self)
        self._registry.running.discard(self)
        self._state = "stopped"
        self._emitter.emit(WorkerStopped(self.id, self.processed, self._accounts.released))

    def _stop_failed(self, error: BaseException) -> None:
        self._emitter.emit(BackendError("shutdown", f"{type(error).__name__}: {error}", 0.0))

    async def _stop_reading(self) -> None:
        self._hand_back(await self._subscribers.stop_reading())

    async def _until_quiet(self) -> None:
        await first_of(self._slots.until_quiet(self.options.grace), self._hurry.wait())

    async def _prepare(self) -> None:
        """Make sure that the store takes the work, and join the groups. One that is away or refuses is waited
        for."""
        if self._state != "new":
            raise ConfigurationError("a worker can be started once; ask app.worker() for another")
        with waiting_for_store(self._emitter):
            await self._home.open_here()
            self._backend = self._home.backend
            await self._leases.ask_for(self._backend, self._emitter)
            self._build()
            self._registry.running.add(self)
            try:
                await self._subscribers.join()
            except BaseException:
                await self._take_back()
                raise
        self._state = "prepared"

    async def _take_back(self) -> None:
        """Nothing is started yet, and it may be tried again."""
        self._state = "new"
        self._registry.running.discard(self)
        del self._sources[len(self._queues) :], self._topics[:]
        await self._executor.close()

    async def _start(self) -> None:
        backend, options = self._backend, self.options
        try:
            await self._resources.open()
        except BaseException:
            await self._take_back()
            raise
        self._started_us = round(time.time() * SECOND)
        self._home.move_in(self)
        self._silence = backend.listen(self._orders.obey)
        self._unguard = guard_tasks()
        self._slots.start()
        self._settler.start()
        self._keeper.start()
        self._maintenance.start()
        self._balancer.start()
        self._tallier.start()
        self._reporter.start()
        if self._queues:
            self._fetcher.start()
        self._subscribers.start()
        if self._fires:
            self._ticker.start()
        self._state = "running"
        store, topics = backend.description, tuple(map(str, self.subscriptions))
        started = WorkerStarted(self.id, options.queues, options.concurrency, options.lease, store, topics)
        self._emitter.emit(started)

    def _build(self) -> None:
        options, backend, emitter = self.options, self._backend, self._emitter
        self._judge = Judge(
            consumer=self.id,
            max_payload=options.max_payload,
            mark_ttl=options.mark_ttl,
            clock_us=self._holdings.store_clock_us,
        )
        self._settler = Settler(
            backend, emitter=emitter, written=self._written, refused=self._judge.unwritable
        )
        self._desk = Desk(self._judge, self._settler.put)
        self._executor = Executor(
            registry=self._registry,
            emitter=emitter,
            judge=self._judge,
            consumer=self.id,
            max_payload=options.max_payload,
            concurrency=options.concurrency,
            children=options.children,
            clock_us=self._holdings.store_clock_us,
            desk=self._desk,
            resources=self._resources,
        )
        self._slots = Slots(options.concurrency, executor=self._executor, finish=self._finish)
        self._fetcher = Fetcher(
            backend,
            self._queues,
            consumer=self.id,
            slots=self._slots,
            holdings=self._holdings,
            unwritten=self._settler.__len__,
            emitter=emitter,
            too_many=self._hand_back,
            lease=lambda: self._leases.shortest,
            children=self._free_children,
        )
        self._executor.on_child_freed = self._fetcher.child_freed
        self._orders = Orders(
            worker=self.id,
            running=self._executor.running,
            slots=self._slots,
            holdings=self._holdings,
            emitter=emitter,
            hand_back=self._hand_back,
            lose=lambda claim: self._subscribers.lost(claim),
        )
        self._keeper = Keeper(
            backend.lease_keeper(),
            holdings=self._holdings,
            lease=options.lease,
            emitter=emitter,
            report=self._orders.heed_renewals,
        )
        self._subscribers = Subscribers(
            self.subscriptions,
            worker=self.id,
            backend=backend,
            registry=self._registry,
            slots=self._slots,
            running=self._executor.running,
            holdings=self._holdings,
            unwritten=self._settler.__len__,
            desk=self._desk,
            announcer=self._announcer,
            emitter=emitter,
            leases=self._leases,
            sources=self._sources,
            due=self._topics,
            hand_back=self._hand_back,
            refuse=self._refuse,
            with_jobs=bool(self._registry.queues().intersection(options.queues)),
        )
        self._maintenance = Maintenance(
            backend,
            self._sources,
            due=self._topics,
            lease=options.lease,
            emitter=emitter,
            describe=self._describe,
            paused=self._orders.heed_pauses,
            leases=self._leases.heed,
        )
        self._leases.followed_by(self._keeper.follow, self._maintenance.follow)
        running = self._executor.running
        self._reporter = Reporter(backend, running=running, judge=self._judge, emitter=emitter)
        self._ticker = Ticker(
            backend,
            self._queues,
            self._registry.schedules.values(),
            emitter=emitter,
            mark_us=microseconds(self.options.mark_ttl),
        )
        self._orders.passed_on_to(
            resumed=self._wake_readers,
            due=self._maintenance.something_is_due,
            leases=self._leases.heed,
            schedules=self._ticker.heed,
        )
        self._tallier = Tallier(backend, emitter=emitter)
        self._accounts = Accounts(
            self._holdings,
            tallier=self._tallier,
            announcer=self._announcer,
            emitter=emitter,
            event_written=self._subscribers.written if self.subscriptions else None,
            suspect_gone=self._wake_readers,
        )
        self._balancer = Balancer(self._slots, self._holdings, hand_back=self._hand_back, emitter=emitter)

    def _finish(self, finished: list[Finished] | FinishedBundle) -> None:
        """A slot is done with some claims, or with a bundle of them."""
        parts = finished if isinstance(finished, list) else finished.parts
        if self._state == "running" and not self.subscriptions:  # the path of jobs is short
            self._settler.put_all(parts)
        else:
            for each in parts:
                self._conclude(each)
            self._subscribers.room_made()
        if self._fetcher.hungry:
            self._fetcher.room_made()
        if self._fetcher.childless:
            self._fetcher.child_freed()

    def _free_children(self) -> int | None:
        """How much child work can be begun now; None: no task of this worker needs a child."""
        if not self._registry.has_children:
            return None
        runs = self._executor.running.values()
        coming = sum([run.handler.run_in == "process" and not run.delegated for run in runs])
        coming += sum([claim.child for claim in self._slots.ready])
        return max(0, min(self._executor.processes.free - coming, self._slots.free))

    def _written(self, batch: list[Finished], verdicts: list[Verdict], doubtful: bool) -> None:
        """The store has answered. `doubtful`: an earlier try may have been carried out unseen."""
        self._accounts.close(batch, verdicts, doubtful)
        if self._fetcher.hungry:
            self._fetcher.room_made()
        if self.subscriptions:
            self._subscribers.room_made()

    def _conclude(self, finished: Finished) -> None:
        if finished.claim.source.stream.kind == "group" and not self._subscribers.concluded(finished):
            return
        if self._state != "running" and finished.claim not in self._holdings:
            return  # it was handed back over the head of a handler that would not end
        self._settler.put(finished)

    def _refuse(self, claim: Claim) -> bool:
        """End a claim that no handler could take; False: one can."""
        if isinstance(prepared := self._executor.prepare(claim), Finished):
            self._conclude(prepared)
        return isinstance(prepared, Finished)

    def _wake_readers(self) -> None:
        self._backend.wake(self.id)
        self._subscribers.wake()

    def _hand_back(self, claims: list[Claim]) -> None:
        for claim in [part for each in claims for part in parts_of(each)]:
            if claim in self._holdings:  # what a fan-out has read is nobody else's
                run = self._executor.running.get(claim)
                outcome = self._judge.left_behind(run) if run else self._judge.released(claim)
                self._settler.put(Finished(claim, outcome))

    async def _interrupt_all(self) -> None:
        for run in list(self._executor.running.values()):
            run.interrupt("shutdown")
            run.abandon()
        if not await self._slots.until_quiet(QUICK_STEP if self._hurry.is_set() else STUBBORN):
            # Coroutines that will not be cancelled are left behind, and what they do later is ignored.
            self._hand_back(list(self._executor.running))

    async def _retire(self) -> None:
        try:
            await self._backend.retire(self._queues, self.id)
            await self._subscribers.retire()
        except BackendUnavailable:
            pass  # the store is away: it forgets this worker by itself

    def _describe(self) -> WorkerInfo:
        return announcement(
            self.id,
            self.options,
            started_us=self._started_us,
            polled_at=self.last_poll,
            groups=self._subscribers.groups,
            timings=self._ticker.timings if self._fires else (),
            running=self._executor.running.values(),
        )

    async def _until_drained(self) -> None:
        await until_drained(
            self._backend,
            self._sources,
            topics=self._topics,
            slots=self._slots,
            settler=self._settler,
            holdings=self._holdings,
            nothing_else=self._subscribers.have_nothing,
        )
