"""`headrace bench`: how fast the user's own store is. A producer and a worker run for a few seconds."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast, get_args

import click
import msgspec

from headrace.app import App, Durability
from headrace.cli.output.render import console, echo, is_terminal, json_option, show, show_json
from headrace.cli.output.table import Column, FittedTable
from headrace.cli.target.locate import locate
from headrace.cli.target.option_types import setting
from headrace.cli.target.store import sqlite_file
from headrace.cli.worker.event_loop import loop_factory
from headrace.core.errors import ConfigurationError
from headrace.stores import DEFAULT_URL

#: The namespace of the jobs: they are never among the user's own.
NAMESPACE = "headrace-bench"

#: Seconds that each measure may take, so that a slow store is not kept busy for long.
ONE_BY_ONE, BULK, DRAIN, PICK_UP = 1.5, 1.0, 3.0, 2.0

#: Jobs of one enqueue_many, and of all of them; times that a job is awaited.
BATCH, MOST, SAMPLES = 1_000, 20_000, 200

#: Shows which measurement runs now.
Say = Callable[[str], None]


@click.command()
@click.argument("target", required=False, metavar="[URL | MODULE:APP]")
@setting("url", metavar="URL", help="The store; default: sqlite:///headrace.db.")
@setting(
    "durability",
    type=click.Choice(get_args(Durability)),
    default="default",
    help="How safely jobs are stored meanwhile.",
)
@json_option
def bench(target: str | None, url: str | None, durability: str, as_json: bool) -> None:
    """Measure your store for a few seconds.

    How fast jobs are enqueued and drained, and how soon a waiting worker starts one. Producer and worker
    share this process. The jobs are stored in a namespace of their own, for SQLite in a file of their own in
    the same folder, and are removed at the end.

    \b
    Examples:
      headrace bench
      headrace bench redis://localhost:6379/0
      headrace bench shop:app --json
    """
    place = _url(target, url)
    store = App(place, durability=cast(Durability, durability)).description
    with beside(place) as own:
        result = _measured(own, cast(Durability, durability))
    if as_json:
        show_json({"store": store, **msgspec.structs.asdict(result)})
    else:
        echo(f"{store}\n")
        _show(result)


def _url(target: str | None, url: str | None) -> str:
    if target is None:
        return url or DEFAULT_URL
    return target if "://" in target else _url_of(target)


def _url_of(target: str) -> str:
    found = locate(target).url
    if found is None:
        raise ConfigurationError(f"{target} has a store of its own (store=), which has no URL to measure")
    return found


def _measured(url: str, durability: Durability) -> BenchResult:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        if not is_terminal("stderr"):
            return runner.run(measure(url, durability, _say))
        with console(stderr=True).status("measuring") as spinner:
            return runner.run(measure(url, durability, lambda what: spinner.update(f"measuring: {what}")))


def _say(what: str) -> None:
    echo(f"measuring: {what}", err=True)


def _show(result: BenchResult) -> None:
    listing = FittedTable(Column("measurement"), Column("result", right=True), Column("unit"))
    rows = [
        ("enqueue, one by one", f"{result.enqueue_per_second:,.0f}", "jobs/s"),
        ("enqueue_many", f"{result.bulk_per_second:,.0f}", "jobs/s"),
        ("drain, handlers that do nothing", f"{result.drain_per_second:,.0f}", "jobs/s"),
        ("pick-up on an idle queue, median", f"{result.pick_up_p50_ms:.1f}", "ms"),
        ("pick-up on an idle queue, 99 of 100", f"{result.pick_up_p99_ms:.1f}", "ms"),
    ]
    for row in rows:
        listing.add(*row)
    show(listing)


class BenchResult(msgspec.Struct, frozen=True):
    """What was measured; rates are jobs a second."""

    enqueue_per_second: float
    bulk_per_second: float
    drain_per_second: float
    pick_up_p50_ms: float
    pick_up_p99_ms: float


class BenchApps:
    """Two apps on one store, since in real life the producer and the worker are two processes."""

    def __init__(self, url: str, durability: Durability) -> None:
        self.producer = App(url, namespace=NAMESPACE, durability=durability, result_ttl=0)
        self.consumer = App(url, namespace=NAMESPACE, durability=durability, result_ttl=0)
        self.ran = self.expected = 0
        self.all_ran = asyncio.Event()
        self.stamps: asyncio.Queue[float] = asyncio.Queue()
        self.consumer.task(name="noop")(self._noop)
        self.consumer.task(name="stamp")(self._stamp)
        self.noop = self.producer.task(name="noop")(self._noop)
        self.stamp = self.producer.task(name="stamp")(self._stamp)

    async def _noop(self) -> None:
        self.ran += 1
        if self.ran == self.expected:
            self.all_ran.set()

    async def _stamp(self) -> None:
        self.stamps.put_nowait(time.perf_counter())


async def measure(url: str, durability: Durability, say: Say) -> BenchResult:
    """All result of a store; nothing that ran or waited is left on it."""
    bench = BenchApps(url, durability)
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
    return BenchResult(
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
        raise ConfigurationError(
            f"no file can be made in {folder}: give the URL of a store in a folder where this user may write"
        )
    with TemporaryDirectory(prefix=".headrace-bench-", dir=folder) as own:
        yield f"sqlite:///{Path(own, 'bench.db')}"


@asynccontextmanager
async def _cleared(bench: BenchApps) -> AsyncIterator[None]:
    """Opens both apps, and empties the queue before and after."""
    async with bench.producer as producer, bench.consumer:
        await producer.admin.purge("default")
        try:
            yield
        finally:
            await producer.admin.purge("default")
            await producer.admin.discard(queue="default")


async def _one_by_one(bench: BenchApps) -> float:
    number, began = 0, time.perf_counter()
    while time.perf_counter() - began < ONE_BY_ONE:
        await bench.noop.enqueue()
        number += 1
    return number / (time.perf_counter() - began)


async def _bulk(bench: BenchApps) -> float:
    calls = [bench.noop.call() for _ in range(BATCH)]
    number, began = 0, time.perf_counter()
    while number < MOST and time.perf_counter() - began < BULK:
        await bench.producer.enqueue_many(calls)
        number += BATCH
    return number / (time.perf_counter() - began)


async def _drain(bench: BenchApps) -> float:
    [queue] = await bench.producer.admin.queues()
    bench.expected = queue.queued
    async with bench.consumer.worker(grace=1):
        began = time.perf_counter()
        with suppress(TimeoutError):
            await asyncio.wait_for(bench.all_ran.wait(), DRAIN)
        return bench.ran / (time.perf_counter() - began)


async def _pick_up(bench: BenchApps) -> list[float]:
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
