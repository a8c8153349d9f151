"""A quick measure of a store: a producer and a worker of their own, five figures in a few seconds."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from headrace.app import App, Durability
from headrace.core.errors import ConfigurationError

from .target.store import sqlite_file

#: Where the jobs lie meanwhile: beside the user's, never among them.
NAMESPACE = "headrace-bench"

#: Seconds that each measure may take, so that a slow store is not kept busy for long.
ONE_BY_ONE, BULK, DRAIN, PICK_UP = 1.5, 1.0, 3.0, 2.0

#: Jobs of one enqueue_many, and of all of them; times that a job is awaited.
BATCH, MOST, SAMPLES = 1_000, 20_000, 200

Say = Callable[[str], None]


class Figures(msgspec.Struct, frozen=True):
    """What was measured; rates are jobs a second."""

    enqueue_per_second: float
    bulk_per_second: float
    drain_per_second: float
    pick_up_p50_ms: float
    pick_up_p99_ms: float


class Bench:
    """Two apps on one store, since in real life the producer and the worker are two processes."""

    def __init__(self, url: str, durability: Durability) -> None:
        self.producer = App(url, namespace=NAMESPACE, durability=durability, result_ttl=0)
        self.consumer = App(url, namespace=NAMESPACE, durability=durability, result_ttl=0)
        self.ran = self.expected = 0
        self.all_ran = asyncio.Event()
        self.stamps: asyncio.Queue[float] = asyncio.Queue()
        for app in (self.producer, self.consumer):
            app.task(name="noop")(self._noop)
            app.task(name="stamp")(self._stamp)
        self.noop: Any = self.producer.tasks["noop"]
        self.stamp: Any = self.producer.tasks["stamp"]

    async def _noop(self) -> None:
        self.ran += 1
        if self.ran == self.expected:
            self.all_ran.set()

    async def _stamp(self) -> None:
        self.stamps.put_nowait(time.perf_counter())


async def measure(url: str, durability: Durability, say: Say) -> Figures:
    """All figures of a store; nothing that ran or waited is left on it."""
    bench = Bench(url, durability)
    async with _cleared(bench):
        say("enqueue one by one")
        single = await _one_by_one(bench)
        say("enqueue in bulk")
        bulk = await _bulk(bench)
        say("drain")
        drain = await _drain(bench)
        await bench.producer.admin.purge("default")
        say("pick-up")
        samples = await _pick_up(bench)
    cuts = statistics.quantiles(samples, n=100)
    return Figures(
        *(round(rate, 1) for rate in (single, bulk, drain)), *(round(cuts[cut], 3) for cut in (49, 98))
    )


@contextmanager
def beside(url: str) -> Iterator[str]:
    """Where to measure: beside a SQLite file in another one, so that the user's does not grow."""
    file = sqlite_file(url)
    if file is None:
        yield "memory://headrace-bench" if url.startswith("memory://") else url
        return
    folder = file.absolute().parent
    if not os.access(folder, os.W_OK):
        raise ConfigurationError(f"{folder} is no folder in which files can be made")
    with TemporaryDirectory(prefix=".headrace-bench-", dir=folder) as own:
        yield f"sqlite:///{Path(own, 'bench.db')}"


@asynccontextmanager
async def _cleared(bench: Bench) -> Any:
    """With an empty queue before and after."""
    async with bench.producer as producer, bench.consumer:
        await producer.admin.purge("default")
        try:
            yield
        finally:
            await producer.admin.purge("default")
            await producer.admin.discard(queue="default")


async def _one_by_one(bench: Bench) -> float:
    number, began = 0, time.perf_counter()
    while time.perf_counter() - began < ONE_BY_ONE:
        await bench.noop.enqueue()
        number += 1
    return number / (time.perf_counter() - began)


async def _bulk(bench: Bench) -> float:
    calls = [bench.noop.call() for _ in range(BATCH)]
    number, began = 0, time.perf_counter()
    while number < MOST and time.perf_counter() - began < BULK:
        await bench.producer.enqueue_many(calls)
        number += BATCH
    return number / (time.perf_counter() - began)


async def _drain(bench: Bench) -> float:
    [queue] = await bench.producer.admin.queues()
    bench.expected = queue.queued
    async with bench.consumer.worker(grace=1):
        began = time.perf_counter()
        with suppress(TimeoutError):
            await asyncio.wait_for(bench.all_ran.wait(), DRAIN)
        return bench.ran / (time.perf_counter() - began)


async def _pick_up(bench: Bench) -> list[float]:
    """Milliseconds from before enqueue to the handler's first line, on an idle queue."""
    samples: list[float] = []
    ends_at = time.perf_counter() + PICK_UP
    async with bench.consumer.worker(grace=1):
        while len(samples) < SAMPLES and (len(samples) < 2 or time.perf_counter() < ends_at):
            began = time.perf_counter()
            await bench.stamp.enqueue()
            samples.append((await bench.stamps.get() - began) * 1000)
            await asyncio.sleep(0.005)  # so that the worker is idle again
    return samples
