"""One arm of a soak: one store, its fleet, a steady load, and a fault from time to time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from headrace import BackendUnavailable, HeadraceError
from tests.torture.arena import Arena, Fault
from tests.torture.campaign import end_schedules, is_drained, left_over, note_the_dead
from tests.torture.facts import Recorder
from tests.torture.faults import all_faults
from tests.torture.fleet import Fleet, Member, Role, wait_until
from tests.torture.program import RESULT_TTL, TIMEOUT, Program
from tests.torture.stores import TortureStore, opened

from .census import Census, census, grown, most_consumers
from .samples import Sampler
from .windows import WindowChecker

WORKLOAD: Final = "tests.torture.soak.workload"

#: Slots of each worker. It starts as many threads for plain functions, one whenever none is idle.
SLOTS: Final = 30

#: Seconds for which results and records of ended jobs are kept.
KEPT: Final = 60.0

#: Seconds after which runs of tasks with a short timeout are interrupted.
SHORT_TIMEOUT: Final = 5.0

#: Seconds between two checks of what came to its end, and two readings of the dead letters.
CHECKED: Final = 60.0

#: Seconds until everything has come to its end after the producers stop, and until what the store keeps for a
#: time is gone: results and events after a minute, workers that were killed after some more.
DRAINED: Final = 120.0
EMPTIED: Final = 400.0

#: Seconds for which the census of the short run must stay the same.
STEADY: Final = 100.0

#: Seconds between two looks whether the machine is too busy, and by how many seconds a look is then late. It
#: is written down like a fault that hits no process: it explains a stall, and no repeat.
BEAT: Final = 0.5
LATE: Final = 1.0
BUSY: Final = "machine-busy"

#: Faults that a soak has, each in its turn. None of them loses what the store holds, and none needs a proxy.
FAULTS: Final = (
    "worker-killed",
    "worker-terminated",
    "worker-paused-1.5-leases",
    "producer-killed",
    "producer-terminated",
    "child-killed",
    "child-paused-1.5-leases",
    "loop-blocked-2-leases",
    "undecodable-jobs",
    "server-killed",
    "server-restarted",
    "server-away-2-leases",
    "server-paused-2-leases",
    "clients-killed",
    "scripts-flushed",
    "groups-destroyed",
    "memory-full",
    "writes-refused",
    "server-busy",
    "file-locked-2-leases",
    "long-reader",
    "killed-in-commit",
)


class ArmPlan(msgspec.Struct, frozen=True):
    """What one arm does. `rate`: jobs in a second. `pause`: seconds between two faults; 0: no faults."""

    store: str
    seconds: float
    seed: str
    rate: float
    pause: float
    lease: float = 5.0
    workers: int = 2
    producers: int = 2


class SoakArena(Arena):
    """Spares the first worker and the first producer, which are measured over the whole run. Faults of the
    store hit them too."""

    def one(self, role: Role) -> Member:
        return self.random.choice(self.fleet.of(role)[1:])


class Arm:
    """Runs one arm. `file` takes the samples."""

    def __init__(self, plan: ArmPlan, folder: Path, file: Path) -> None:
        self.plan = plan
        self.spared: tuple[str, ...] = ()  #: the processes that no fault ends
        self.left: list[str] = []  #: what is left in the store, in words
        self.started = asyncio.Event()
        self.began = 0.0
        self.ended = 0.0
        self._logs = folder / "logs"
        self._logs.mkdir(parents=True)
        self._folder = folder
        self._file = file
        self._recorder = Recorder(self._logs, "soak")
        self.checker = WindowChecker(self._logs, lease=plan.lease, seed=plan.seed)

    async def run(self, finding: Coroutine[Any, Any, Census] | None = None) -> Census:
        """Run until the time is over, drain, and give the census. With a baseline, which is found beside it,
        it must return to that."""
        baseline = None if finding is None else asyncio.create_task(finding)
        async with opened(self.plan.store, self._folder, proxied=False, persistent=True) as store:
            return await self._run(store, baseline)

    async def _run(self, store: TortureStore, baseline: asyncio.Task[Census] | None) -> Census:
        plan = self.plan
        fleet = Fleet(
            workload=WORKLOAD,
            url=store.url,
            seed=plan.seed,
            lease=plan.lease,
            rate=plan.rate / plan.producers,
            folder=self._logs,
            recorder=self._recorder,
            concurrency=SLOTS,
            environment={RESULT_TTL: str(KEPT), TIMEOUT: str(SHORT_TIMEOUT)},
        )
        program = Program(store.direct_url, self._recorder, plan.seed, self._logs)
        arena = SoakArena(
            program=program, fleet=fleet, store=store, random=Random(plan.seed), recorder=self._recorder
        )
        beside: list[asyncio.Task[None]] = []
        try:
            await fleet.start(workers=plan.workers, producers=plan.producers)
            self.began = time.monotonic()
            self.started.set()
            self.spared = (fleet.of("worker")[0].name, fleet.of("producer")[0].name)
            beside = [
                asyncio.create_task(Sampler(plan.store, fleet, store, self._file).run()),
                asyncio.create_task(self._keep_checking(program)),
                asyncio.create_task(self._note_a_busy_machine()),
            ]
            await self._harm(arena)
            self.ended = time.monotonic()
            await self._drain(program, fleet)
            found = await self._settle(store, await baseline if baseline is not None else None)
            await self._count_consumers(store)
            await fleet.stop_workers()
            await self._look_for_workers(program)
            return found
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            fleet.clear_away()
            with suppress(HeadraceError):
                await program.app.close()
            self._print(self.checker.check(time.monotonic(), last=True))

    async def _harm(self, arena: Arena) -> None:
        """A fault from time to time, until the time is over."""
        end = self.began + self.plan.seconds
        faults = self._faults(arena)
        while (left := end - time.monotonic()) > 0:
            wait = self.plan.pause * arena.random.uniform(0.5, 1.5)
            if not self.plan.pause or wait > left:
                await asyncio.sleep(left)
                return
            await asyncio.sleep(wait)
            fault = next(faults)
            await fault.inject(arena)
            await arena.fleet.fill_up()
            arena.heal()
            self._print([f"{fault.name}"])

    def _faults(self, arena: Arena) -> Iterator[Fault]:
        known = all_faults()
        chosen = [known[name] for name in FAULTS if arena.store.family in known[name].families]
        return cycle(arena.random.sample(chosen, len(chosen)))

    async def _keep_checking(self, program: Program) -> None:
        """As operators do: look at the dead letters, and discard them. Then check what came to its end."""
        while True:
            await asyncio.sleep(CHECKED)
            await self._clear_dead(program)
            lines = await asyncio.to_thread(lambda: list(self.checker.check(time.monotonic())))
            runs = sum(self.checker.rates.values())
            self._print([*lines, f"{runs} runs, {self.checker.held} facts held"])

    async def _note_a_busy_machine(self) -> None:
        """When this process has to wait for a processor, so have the workers: that is part of a stall."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(BEAT)
            if time.monotonic() - before > BEAT + LATE:
                run = self._recorder.new_run()
                self._recorder.write("fault_begun", run=run, value=BUSY, at=before)
                self._recorder.write("fault_ended", run=run, value=BUSY)

    async def _clear_dead(self, program: Program) -> None:
        try:
            letters = await note_the_dead(program.app, self._recorder)
            for start in range(0, len(letters), 500):
                await program.app.admin.discard(ids=letters[start : start + 500])
        except BackendUnavailable:
            return  # a fault; the next time will do

    async def _drain(self, program: Program, fleet: Fleet) -> None:
        app = program.app
        await end_schedules(app, self._recorder)
        await fleet.stop_producers(DRAINED)
        try:
            await wait_until(lambda: is_drained(app), timeout=DRAINED)
        except AssertionError:
            self.left += await left_over(app)
        await self._clear_dead(program)

    async def _settle(self, store: TortureStore, baseline: Census | None) -> Census:
        """Wait until what is kept for a time is gone. The short run shows what then is left."""
        found = await asyncio.to_thread(census, store)
        since, end = time.monotonic(), time.monotonic() + EMPTIED
        while time.monotonic() < end:
            await asyncio.sleep(5)
            before, found = found, await asyncio.to_thread(census, store)
            if found != before:
                since = time.monotonic()
            if baseline is None and time.monotonic() - since > STEADY:
                return found
            if baseline is not None and not grown(baseline, found):
                return found
        if baseline is None:
            self.left.append("the store does not come to rest")
        else:
            self.left += grown(baseline, found)
        return found

    async def _count_consumers(self, store: TortureStore) -> None:
        """The names of workers that were killed are kept for an hour: no stream has more than workers ran."""
        ran = len(list(self._logs.glob("worker-*.txt")))
        if store.family == "redis" and (most := await asyncio.to_thread(most_consumers, store.server)) > ran:
            self.left.append(f"{most} consumers of one stream, and {ran} workers ran")

    async def _look_for_workers(self, program: Program) -> None:
        self.left += [
            f"worker {worker.consumer} is still listed" for worker in await program.app.admin.workers()
        ]

    def _print(self, lines: Iterator[str] | list[str]) -> None:
        for line in lines:
            print(f"{time.strftime('%H:%M:%S')}  {self.plan.store:<12} {line}", flush=True)
