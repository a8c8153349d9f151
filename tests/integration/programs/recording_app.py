"""An app whose tasks write down what they do: what real worker processes run in these tests.

A worker is started as `headrace worker tests.integration.programs.recording_app:app`. The environment names
store and log.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any, cast

from headrace import App, RetryPolicy, current_job, signals

STORE, LOG, CLOCK, DURABILITY = "SHOP_STORE", "SHOP_LOG", "SHOP_CLOCK", "SHOP_DURABILITY"

#: The machine's own clocks, also where a worker's is wrong.
_time, _time_ns = time.time, time.time_ns


class Log:
    """One line for each thing that happened, from any process, in one write each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: list[dict[str, Any]] = []
        self._size = 0

    def write(self, what: str, **facts: Any) -> None:
        line = json.dumps({"what": what, "pid": os.getpid(), "at": _time(), **facts}) + "\n"
        with self.path.open("ab", buffering=0) as file:
            file.write(line.encode())

    def lines(self, what: str | None = None, **facts: Any) -> list[dict[str, Any]]:
        self._read_on()
        return [
            line
            for line in self._read
            if what in (None, line["what"]) and all(line.get(name) == value for name, value in facts.items())
        ]

    def _read_on(self) -> None:
        """Only what was added: tests ask again and again."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._size)
            added, end, _ = file.read().rpartition(b"\n")
        self._size += len(added) + len(end)
        self._read += [json.loads(line) for line in added.splitlines()]


def make_app(url: str, log: Log, durability: str = "default") -> App:
    """The app, for workers and for the tests that feed them."""
    app = App(url, retry=RetryPolicy.fixed(3, 0.05), durability=cast(Any, durability))
    _declare_gentle_tasks(app, log)
    _declare_rough_tasks(app, log)
    if not url.startswith("redis+cluster"):  # there, no worker starts with a limit over a queue in partitions
        _declare_limited_task(app, log)
    app.queue("watched", crash_limit=2, on_dead="note_death")
    _listen(app, log)
    return app


def _started(log: Log) -> None:
    job = current_job()
    log.write("started", id=job.id, attempt=job.attempt, redelivered=job.redelivered)


def _declare_gentle_tasks(app: App, log: Log) -> None:
    @app.task(name="quick")
    async def quick(number: int) -> int:
        log.write("quick", number=number)
        return number

    @app.task(name="silent")
    async def silent() -> None:
        pass

    @app.task(name="nap")
    async def nap(seconds: float) -> str:
        _started(log)
        await asyncio.sleep(seconds)
        log.write("ended", id=current_job().id)
        return "rested"

    @app.task(name="note_death")
    async def note_death(id: str, task: str, queue: str, reason: str, error: str) -> None:
        log.write("death", id=id, task=task, queue=queue, reason=reason)

    @app.task(name="first_hangs")
    async def first_hangs() -> str:
        """Hangs where it is run first, returns at once where it is run again."""
        _started(log)
        # A worker that a busy machine held up may have handed it back before any handler began.
        if len(log.lines("started", id=current_job().id)) == 1:
            await asyncio.sleep(3600)
        return "done"

    @app.task(name="tell_then_hang")
    async def tell_then_hang() -> bool:
        """Tells of its progress without end where it is run first; then answers whether any is known."""
        job = current_job()
        number = 0
        while job.attempt == 1:
            number += 1
            await job.progress(0.5, f"step {number}")
            await asyncio.sleep(0.001)
        return (await app.job(job.id).info()).progress is not None


def _declare_limited_task(app: App, log: Log) -> None:
    @app.task(name="three_at_once", max_running=3, result_ttl=0)
    async def three_at_once(number: int) -> None:
        log.write("began", number=number)
        await asyncio.sleep(0.01)
        log.write("finished", number=number)


def _declare_rough_tasks(app: App, log: Log) -> None:
    @app.task(name="block")
    async def block(seconds: float) -> str:
        """Blocks the event loop, as people do by mistake."""
        _started(log)
        time.sleep(seconds)  # noqa: ASYNC251 - to block the loop is what this task is for
        log.write("ended", id=current_job().id)
        return "unblocked"

    @app.task(name="poison")
    async def poison() -> None:
        """Takes its process down."""
        _started(log)
        os._exit(9)

    @app.task(name="stubborn")
    async def stubborn() -> None:
        """Does not want to be cancelled."""
        _started(log)
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                log.write("ignored", id=current_job().id)


def _listen(app: App, log: Log) -> None:
    @app.on(signals.LeaseLost)
    def lease_lost(signal: signals.LeaseLost) -> None:
        log.write("lost", id=signal.id)

    @app.on(signals.WorkerStarted)
    def worker_started(signal: signals.WorkerStarted) -> None:
        log.write("working")


def _put_the_clock_forward(seconds: float) -> None:
    """As on a machine whose clock is wrong: every clock of this process but the monotonic one."""
    time.time = lambda: _time() + seconds
    time.time_ns = lambda: _time_ns() + round(seconds * 1e9)


if ahead := float(os.environ.get(CLOCK, 0)):
    _put_the_clock_forward(ahead)

if STORE in os.environ:
    app = make_app(os.environ[STORE], Log(Path(os.environ[LOG])), os.environ.get(DURABILITY, "default"))
