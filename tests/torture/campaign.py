"""A campaign: rounds of one store, one workload and some faults, each drained and checked."""

from __future__ import annotations

import asyncio
import shutil
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from headrace import App, BackendUnavailable, HeadraceError

from .arena import Arena, Fault
from .checker import Broken, broken_rules
from .facts import Recorder, read_all
from .fleet import Fleet, briefly, wait_until
from .history import History
from .program import Program
from .residue import residue
from .stores import TortureStore, opened

#: Seconds until everything that was accepted must have come to an end, after the last fault.
DRAINED: Final = 60.0

#: Seconds until producers must have ended: they wait for results.
PRODUCED: Final = 75.0


class RoundPlan(msgspec.Struct, frozen=True):
    """What one round does. `pause`: seconds of work before each fault and after the last."""

    store: str
    workload: str
    faults: tuple[Fault, ...]
    seed: str
    lease: float = 1.0
    rate: float | None = None  # of each producer, if not as its workload says
    workers: int = 2
    producers: int = 3
    pause: float = 1.5

    def __str__(self) -> str:
        names = " ".join(fault.name for fault in self.faults)
        return f"{self.store} {self.workload} [{names}] seed {self.seed}"


class RoundResult(msgspec.Struct):
    """What happened in a round."""

    plan: RoundPlan
    history: History
    broken: list[Broken]
    seconds: float


async def run_round(plan: RoundPlan, folder: Path, *, keep: bool = False) -> RoundResult:
    """Run it and check what happened. Its files are removed when all is well, unless they are to be kept."""
    began = time.monotonic()
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(logs, "campaign")
    proxied = any(fault.proxied for fault in plan.faults)
    persistent = all(fault.persistent for fault in plan.faults)
    unfinished = ""
    try:
        async with opened(plan.store, folder, proxied=proxied, persistent=persistent) as store:
            await _run(plan, store, logs, recorder)
    except Exception:
        unfinished = traceback.format_exc()
    history = History(read_all(logs), lease=plan.lease)
    # A round that broke off has much that is not at its end.
    broken = [Broken("unfinished", "", unfinished)] if unfinished else broken_rules(history)
    result = RoundResult(plan, history, broken, time.monotonic() - began)
    if not result.broken and not keep:
        shutil.rmtree(folder)
    return result


async def _run(plan: RoundPlan, store: TortureStore, logs: Path, recorder: Recorder) -> None:
    fleet = Fleet(
        workload=plan.workload,
        url=store.url,
        seed=plan.seed,
        lease=plan.lease,
        rate=plan.rate,
        folder=logs,
        recorder=recorder,
    )
    program = Program(store.direct_url, recorder, plan.seed, logs)
    app = program.app
    arena = Arena(program=program, fleet=fleet, store=store, random=Random(plan.seed), recorder=recorder)
    try:
        await fleet.start(workers=plan.workers, producers=plan.producers)
        for fault in plan.faults:
            await briefly(plan.pause * arena.random.uniform(0.5, 1.5))
            await fault.inject(arena)
            await fleet.fill_up()
        await briefly(plan.pause)
        await _drain(app, fleet, recorder)
        for what in await _residue(app, store):
            recorder.write("left", value=what)
    finally:
        fleet.clear_away()
        with suppress(HeadraceError):
            await app.close()


async def _drain(app: App, fleet: Fleet, recorder: Recorder) -> None:
    """Let everything come to its end, stop the workers, and write down what is left."""
    await _end_schedules(app, recorder)
    steps: list[tuple[str, Callable[[], Awaitable[None]]]] = [
        ("producers run on", lambda: fleet.stop_producers(PRODUCED)),
        ("the store is not drained", lambda: wait_until(lambda: _is_drained(app), timeout=DRAINED)),
        ("workers run on", fleet.stop_workers),
    ]
    for failing, step in steps:
        try:
            await step()
        except AssertionError as error:
            recorder.write("left", value=f"{failing}: {error}")
    recorder.write("drained")
    await _note_the_dead(app, recorder)
    for what in await _left(app):
        recorder.write("left", value=what)
    for worker in await app.admin.workers():
        if worker.pid in fleet.stopped:  # one that was killed is listed for a minute
            recorder.write("left", value=f"worker {worker.consumer} is still listed")


async def _residue(app: App, store: TortureStore) -> list[str]:
    """What the server still holds when the dead letters are gone too."""
    if store.family != "redis":
        return []
    for queue in await app.admin.queues():
        await app.admin.discard(queue=queue.name)
    topics = await app.admin.topics()
    for topic in topics:
        await app.admin.discard(topic=topic.name)
    events = sum(topic.length for topic in topics)
    return await asyncio.to_thread(residue, store.server, events=events)


async def _is_drained(app: App) -> bool:
    try:
        return not await _left(app)
    except BackendUnavailable:
        return False  # it comes back


async def _left(app: App) -> list[str]:
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
    return left


async def _end_schedules(app: App, recorder: Recorder) -> None:
    """Pause them all, and write down for which time each last enqueued a job."""
    names = [schedule.name for schedule in await app.schedules.list()]
    for name in names:
        await app.schedules.pause(name)
    for schedule in await app.schedules.list():
        if schedule.last_at is not None:
            short = schedule.name.rpartition(".")[2]
            recorder.write("schedule", value=short, due=schedule.last_at.timestamp())


async def _note_the_dead(app: App, recorder: Recorder) -> None:
    cursor: str | None = None
    while True:
        page = await app.admin.dead(cursor=cursor, limit=500)
        for letter in page:
            recorder.write(
                "dead", job=letter.id, group=letter.group or "", value=f"{letter.reason}: {letter.error}"
            )
        cursor = page.cursor
        if cursor is None:
            return
