"""Single operations as most users have them: a producer that awaits each enqueue, and a worker in another
process whose queue is otherwise idle. Beside it the same by hand: hiredis on Redis, apsw on SQLite."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

from headrace import App, Task

from .measures import Figures
from .raw import Wire, connect

#: Jobs enqueued one after the other, and samples of the pick-up, at scale 1.
SINGLES, SAMPLES = 3_000, 300

#: Seconds between two samples: all that follows from one is over when the next is enqueued.
APART = 0.02

#: Seconds for the worker to be done with what was enqueued before the samples.
SETTLED = 1.0

#: What a job that is not a sample carries.
NO_SAMPLE = 0

#: Enqueues one job, which carries the time at which it was sent; a clock that all processes share.
Enqueue = Callable[[int], Awaitable[object]]


async def two_processes(url: str, scale: float) -> Figures:
    app, stamp = _app(url, [])
    async with app:
        return await _measured("ours", url, scale, stamp.enqueue)


async def by_hand(url: str, scale: float) -> Figures:
    if url.startswith("sqlite"):
        with _file(url) as database:

            async def insert(sent: int) -> None:
                database.execute("INSERT INTO jobs (body) VALUES (?)", (b"%d" % sent,))

            return await _measured("by-hand", url, scale, insert)
    wire = await connect(url)

    async def add(sent: int) -> None:
        await wire.send([("XADD", "two", "*", "m", b"%d" % sent)])

    await wire.send([("DEL", "two"), ("XGROUP", "CREATE", "two", "g", "0", "MKSTREAM")])
    figures = await _measured("by-hand", url, scale, add)
    wire.close()
    return figures


async def _measured(kind: str, url: str, scale: float, enqueue: Enqueue) -> Figures:
    async with _worker(kind, url) as samples:
        number = max(10, int(SINGLES * scale))
        began = time.perf_counter()
        for _ in range(number):
            await enqueue(NO_SAMPLE)
        rate = number / (time.perf_counter() - began)
        await asyncio.sleep(SETTLED)
        for _ in range(max(10, int(SAMPLES * scale))):
            await asyncio.sleep(APART)
            await enqueue(time.perf_counter_ns())
        await asyncio.sleep(SETTLED)
    cuts = statistics.quantiles(samples, n=100)
    return {"enqueue one by one": rate, "pick-up p50, ms": cuts[49], "pick-up p99, ms": cuts[98]}


@contextlib.asynccontextmanager
async def _worker(kind: str, url: str) -> AsyncIterator[list[float]]:
    """A worker in a process of its own; afterwards the list has its samples, in milliseconds."""
    loop = "uvloop" if "uvloop" in type(asyncio.get_running_loop()).__module__ else "asyncio"
    command = [sys.executable, "-m", "benchmarks.two_processes", kind, url, loop]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=1 << 24
    )
    assert process.stdout is not None
    await process.stdout.readline()  # it is ready
    samples: list[float] = []
    try:
        yield samples
        out, _ = await process.communicate(b"")  # which closes its input, so that it ends
        samples += json.loads(out)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


# --- in the process of the worker ------------------------------------------------------------------------


def main() -> None:
    import logging

    from .case import loop_factory

    kind, url, loop = sys.argv[1:]
    logging.disable(logging.WARNING)
    samples: list[float] = []
    work = _work(url, samples) if kind == "ours" else _work_by_hand(url, samples)
    with asyncio.Runner(loop_factory=loop_factory(loop)) as runner:
        runner.run(_until_input_ends(work))
    print(json.dumps(samples))


async def _until_input_ends(work: AsyncIterator[None]) -> None:
    async for _ in work:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


def _note(sent: int, samples: list[float]) -> None:
    if sent != NO_SAMPLE:
        samples.append((time.perf_counter_ns() - sent) / 1e6)


def _app(url: str, samples: list[float]) -> tuple[App, Task[[int], None]]:
    app = App(url)

    @app.task(name="stamp")
    async def stamp(sent: int) -> None:
        _note(sent, samples)

    return app, stamp


async def _work(url: str, samples: list[float]) -> AsyncIterator[None]:
    app, _ = _app(url, samples)
    async with app, app.worker():
        yield


async def _work_by_hand(url: str, samples: list[float]) -> AsyncIterator[None]:
    work = _poll_file if url.startswith("sqlite") else _read_stream
    task = asyncio.create_task(work(url, samples))
    yield
    task.cancel()


async def _read_stream(url: str, samples: list[float]) -> None:
    wire: Wire = await connect(url)
    read = ("XREADGROUP", "GROUP", "g", "c", "COUNT", "100", "BLOCK", "60000", "STREAMS", "two", ">")
    while True:
        [[[_, entries]]] = await wire.send([read])
        for _, fields in entries:
            _note(int(fields[1]), samples)
        ids = [id for id, _ in entries]
        await wire.send([("XACK", "two", "g", *ids), ("XDEL", "two", *ids)])


async def _poll_file(url: str, samples: list[float]) -> None:
    with _file(url) as database:
        known: Any = None
        while True:
            version = database.pragma("data_version")
            rows: list[Any] = []
            if version != known:
                rows = database.execute("DELETE FROM jobs RETURNING body").fetchall()
            for (body,) in rows:
                _note(int(body), samples)
            known = version
            await asyncio.sleep(0.001)


@contextlib.contextmanager
def _file(url: str) -> Iterator[apsw.Connection]:
    database = apsw.Connection(str(Path(url.removeprefix("sqlite:///")).with_suffix(".by-hand")))
    database.set_busy_timeout(5000)
    database.pragma("journal_mode", "WAL")
    database.pragma("synchronous", "FULL")
    database.execute("CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, body BLOB)")
    try:
        yield database
    finally:
        database.close()


if __name__ == "__main__":
    main()
