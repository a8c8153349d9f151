"""What is measured on a store, each as one coroutine that answers figures."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from headrace import App, Task
from headrace.app import Durability

#: Figures of one measurement: name → value (jobs a second, or milliseconds where the name says so).
Figures = dict[str, float]


class Bench:
    """An app on the store under test, and how much to do."""

    def __init__(self, url: str, *, scale: float, durability: Durability = "default") -> None:
        self.app = App(url, durability=durability)
        self.scale = scale
        self.began: dict[int, float] = {}
        self.counted: Callable[[], None] = lambda: None  # what each tick calls

        @self.app.task(name="noop")
        async def noop() -> None:
            pass

        @self.app.task(name="nap")
        async def nap() -> None:
            await asyncio.sleep(0.001)

        @self.app.task(name="stamp")
        async def stamp(number: int) -> None:
            self.began[number] = time.perf_counter()

        @self.app.task(name="tick")
        async def tick() -> None:
            self.counted()

        self.noop, self.nap, self.stamp, self.tick = noop, nap, stamp, tick

    def amount(self, number: int) -> int:
        return max(10, int(number * self.scale))

    async def drain(self, concurrency: int = 100) -> float:
        """Seconds that a burst worker takes for what is queued."""
        began = time.perf_counter()
        await self.app.worker(concurrency=concurrency).run(burst=True)
        return time.perf_counter() - began


async def one_by_one(bench: Bench) -> Figures:
    """A lone producer that waits for each enqueue."""
    number = bench.amount(3_000)
    began = time.perf_counter()
    for _ in range(number):
        await bench.noop.enqueue()
    rate = number / (time.perf_counter() - began)
    await bench.drain()
    return {"enqueue one by one": rate}


async def concurrent(bench: Bench) -> Figures:
    """A hundred coroutines that each enqueue one by one."""
    each = bench.amount(200)

    async def produce() -> None:
        for _ in range(each):
            await bench.noop.enqueue()

    began = time.perf_counter()
    await asyncio.gather(*(produce() for _ in range(100)))
    rate = 100 * each / (time.perf_counter() - began)
    await bench.drain()
    return {"enqueue, 100 coroutines": rate}


async def bulk_and_drain(bench: Bench) -> Figures:
    """enqueue_many, then a drain of handlers that do nothing."""
    return await _bulk_and_drain(bench, bench.noop, bench.amount(50_000), "drain no-op")


async def drain_naps(bench: Bench) -> Figures:
    """A drain of handlers that sleep for a millisecond."""
    figures = await _bulk_and_drain(bench, bench.nap, bench.amount(20_000), "drain with 1 ms sleep")
    figures.pop("enqueue_many")
    return figures


async def _bulk_and_drain(bench: Bench, task: Task[[], None], number: int, name: str) -> Figures:
    calls = [task.call() for _ in range(number)]
    began = time.perf_counter()
    await bench.app.enqueue_many(calls)
    enqueued = number / (time.perf_counter() - began)
    return {"enqueue_many": enqueued, name: number / await bench.drain()}


async def pick_up(bench: Bench) -> Figures:
    """From before enqueue to the handler's first line, on an idle queue, in this process."""
    samples = []
    async with bench.app.worker(concurrency=100):
        for number in range(bench.amount(300)):
            began = time.perf_counter()
            job = await bench.stamp.enqueue(number)
            await job.wait(10)
            samples.append((bench.began.pop(number) - began) * 1000)
    cuts = statistics.quantiles(samples, n=100)
    return {"pick-up p50, ms": cuts[49], "pick-up p99, ms": cuts[98]}


MEASURES: dict[str, Callable[[Bench], Awaitable[Figures]]] = {
    measure.__name__: measure for measure in (one_by_one, concurrent, bulk_and_drain, drain_naps, pick_up)
}


async def measure_all(url: str, scale: float, durability: Durability = "default") -> Figures:
    """Every measure on one store."""
    figures: Figures = {}
    for measure in MEASURES.values():
        bench = Bench(url, scale=scale, durability=durability)
        async with bench.app:
            figures.update(await measure(bench))
    return figures


async def measure_all_relaxed(url: str, scale: float) -> Figures:
    return await measure_all(url, scale, "relaxed")
