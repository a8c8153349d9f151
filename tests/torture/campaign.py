"""A campaign: rounds of one store, one workload and some faults, each drained and checked."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from headrace import App, BackendUnavailable, HeadraceError

from .arena import Arena, Fault
from .checker import Broken, broken_rules
from .facts import Recorder, read_all
from .fleet import AS_NOBODY, Fleet, briefly, wait_until
from .history import History
from .program import Program
from .residue import residue, residue_of_postgres
from .shops import OUTBOX_FILE
from .stores import TortureStore, opened
from .witness import testify

#: Seconds until everything that was accepted must have come to an end, after the last fault.
DRAINED: Final = 150.0

#: Seconds until producers must have ended: they wait for results.
PRODUCED: Final = 150.0


#: What is broken in a round that broke off.
UNFINISHED: Final = "unfinished"


class RoundPlan(msgspec.Struct, frozen=True):
    """What one round does. `pause`: seconds of work before each fault and after the last. `beside`: it runs
    at the same time as the round before it."""

    store: str
    workload: str
    faults: tuple[Fault, ...]
    seed: str
    lease: float = 1.0
    rate: float | None = None  # of each producer, if not as its workload says
    workers: int = 2
    producers: int = 3
    pause: float = 1.2
    beside: bool = False

    def __str__(self) -> str:
        names = " ".join(fault.name for fault in self.faults)
        return f"{self.store} {self.workload} [{names}] seed {self.seed}"


class RoundResult(msgspec.Struct):
    """What happened in a round."""

    plan: RoundPlan
    history: History
    broken: list[Broken]
    seconds: float

    @property
    def is_unfinished(self) -> bool:
        """Whether it broke off, by an error of the harness or of the store."""
        return any(each.rule == UNFINISHED for each in self.broken)


async def run_round(plan: RoundPlan, folder: Path, *, keep: bool = False) -> RoundResult:
    """Run it and check what happened. Its files are removed when all is well, unless they are to be kept."""
    began = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)  # the logs of another round are none of this one
    logs = folder / "logs"
    logs.mkdir(parents=True)
    recorder = Recorder(logs, "campaign")
    unfinished = ""
    try:
        async with _opened(plan, folder) as store:
            await _run(plan, store, logs, recorder)
    except Exception:
        unfinished = traceback.format_exc()
    history = History(read_all(logs), lease=plan.lease)
    # A round that broke off has much that is not at its end.
    broken = [Broken(UNFINISHED, "", unfinished)] if unfinished else broken_rules(history)
    result = RoundResult(plan, history, broken, time.monotonic() - began)
    if not result.broken and not keep:
        shutil.rmtree(folder)
    return result


def _opened(plan: RoundPlan, folder: Path) -> AbstractAsyncContextManager[TortureStore]:
    """A store that has what the faults need."""
    faults = plan.faults
    return opened(
        plan.store,
        folder,
        proxied=any(fault.proxied for fault in faults),
        persistent=all(fault.persistent for fault in faults),
        disk=next((fault.disk for fault in faults if fault.disk), ""),
        clock=any(fault.clock for fault in faults),
    )


async def _run(plan: RoundPlan, store: TortureStore, logs: Path, recorder: Recorder) -> None:
    fleet = Fleet(
        workload=plan.workload,
        url=store.url,
        seed=plan.seed,
        lease=plan.lease,
        rate=plan.rate,
        folder=logs,
        recorder=recorder,
        durability=store.durability,
        clock=store.clock,
        own_clocks=store.family != "sqlite",
        prefix=_prefix(plan),
    )
    outbox = OUTBOX_FILE if plan.workload == "transactions" else ""
    program = Program(store.direct_url, recorder, plan.seed, logs, durability=store.durability, outbox=outbox)
    app = program.app
    arena = Arena(program=program, fleet=fleet, store=store, random=Random(plan.seed), recorder=recorder)
    try:
        await fleet.start(workers=plan.workers, producers=plan.producers)
        await fleet.until_sending()
        for fault in plan.faults:
            await briefly(plan.pause * arena.random.uniform(0.5, 1.5))
            await fault.inject(arena)
            await fleet.fill_up()
        await briefly(plan.pause)
        await _drain(app, fleet, recorder)
        if plan.workload == "transactions":
            testify(store, logs, recorder)
        for what in await _residue(app, store):
            recorder.write("left", value=what)
    finally:
        fleet.clear_away()
        with suppress(HeadraceError):
            await app.close()


def _prefix(plan: RoundPlan) -> tuple[str, ...]:
    """How the fleet is started: not as root where a fault needs that."""
    return AS_NOBODY if os.geteuid() == 0 and any(fault.unprivileged for fault in plan.faults) else ()


async def _drain(app: App, fleet: Fleet, recorder: Recorder) -> None:
    """Let everything come to its end, stop the workers, and write down what is left."""
    await end_schedules(app, recorder)
    steps: list[tuple[str, Callable[[], Awaitable[None]]]] = [
        ("producers run on", lambda: fleet.stop_producers(PRODUCED)),
        ("the store is not drained", lambda: wait_until(lambda: is_drained(app), timeout=DRAINED)),
        ("workers run on", fleet.stop_workers),
    ]
    for failing, step in steps:
        try:
            await step()
        except AssertionError as error:
            recorder.write("left", value=f"{failing}: {error}")
    recorder.write("drained")
    await note_the_dead(app, recorder)
    for what in await left_over(app):
        recorder.write("left", value=what)
    for worker in await app.admin.workers():
        if worker.pid in fleet.stopped:  # one that was killed is listed for a minute
            recorder.write("left", value=f"worker {worker.consumer} is still listed")


async def _residue(app: App, store: TortureStore) -> list[str]:
    """What the server still holds when the dead letters are gone too."""
    if store.family == "sqlite":
        return []
    for queue in await app.admin.queues():
        await app.admin.discard(queue=queue.name)
    topics = await app.admin.topics()
    for topic in topics:
        await app.admin.discard(topic=topic.name)
    if store.family == "postgres":
        return await asyncio.to_thread(residue_of_postgres, store.postgres)
    events = sum(topic.length for topic in topics)
    return await asyncio.to_thread(residue, store.servers, events=events)


async def is_drained(app: App) -> bool:
    try:
        return not await left_over(app)
    except BackendUnavailable:
        return False  # it comes back


async def left_over(app: App) -> list[str]:
    """What has not come to its end, in words. Dead letters have."""
    left = [
        f"queue {queue.name}: {queue.queued} queued, {queue.running} running, {queue.scheduled} scheduled, "
        f"{queue.retrying} retrying"
        for queue in await app.admin.queues()
        if queue.queued or queue.running or queue.scheduled or queue.retrying
    ]
    for topic in await app.admin.topics():
        left += [f"topic {topic.name}: {topic.scheduled} scheduled"] if topic.scheduled else []
        left += [
            f"group {topic.name}/{group.group}: {group.lag} behind, {group.running} running, "
            f"{group.retrying} retrying, {group.scheduled} scheduled"
            for group in topic.groups
            if group.lag or group.running or group.retrying or group.scheduled
        ]
    outboxes = await app.admin.outboxes()
    left += [f"outbox {each.name}: {each.waiting} waiting" for each in outboxes if each.waiting]
    return left + [
        f"limit {limit.name}: {limit.running} running, {limit.waiting} waiting"
        for limit in await app.admin.limits()
        if limit.running or limit.waiting
    ]


async def end_schedules(app: App, recorder: Recorder) -> None:
    """Pause them all, and write down for which time each last enqueued a job."""
    names = [schedule.name for schedule in await app.schedules.list()]
    for name in names:
        await app.schedules.pause(name)
    for schedule in await app.schedules.list():
        if schedule.last_at is not None:
            short = schedule.name.rpartition(".")[2]
            recorder.write("schedule", value=short, due=schedule.last_at.timestamp())


async def note_the_dead(app: App, recorder: Recorder) -> list[str]:
    """Write down every dead letter. Gives the ids."""
    cursor: str | None = None
    ids: list[str] = []
    while True:
        page = await app.admin.dead(cursor=cursor, limit=500)
        for letter in page:
            # An event that feeds a job dies in the group `feeder`, or the job does. Its id then ends with the
            # name of the task.
            id, fed, _ = letter.id.partition(":")
            group = "feed" if fed or letter.group == "feeder" else letter.group or ""
            recorder.write("dead", job=id, group=group, value=f"{letter.reason}: {letter.error}")
        ids += [letter.id for letter in page]
        cursor = page.cursor
        if cursor is None:
            return ids
