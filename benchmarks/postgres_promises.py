"""What else is promised of PostgreSQL: how idle a worker is, and that a backlog changes nothing."""

from __future__ import annotations

import asyncio
import statistics
import time

import psycopg

from .measures import Bench, Figures

#: Of a scale of 1: jobs to drain, and how many wait behind them.
DRAINED, BEHIND = 20_000, 1_000_000
DRAINS = 3

#: The statements of all sessions of this database so far. The looking counts itself, once.
COUNT = b"""
SELECT sum(calls) FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def postgres_promises(url: str, scale: float) -> Figures:
    figures: Figures = {}
    async with Bench(url, scale=scale).app:
        pass
    for measure in (idleness, backlog):
        bench = Bench(url, scale=scale)
        async with bench.app:
            figures |= await measure(bench, url)
    return figures


async def idleness(bench: Bench, url: str) -> Figures:
    """What a worker with nothing to do asks of the server."""
    seconds = max(5.0, 10 * bench.scale)
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as looking,
        bench.app.worker(queues=["default"]),
    ):
        await looking.execute(b"CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        await asyncio.sleep(2)  # the beginnings
        before, began = await _count(looking), time.perf_counter()
        await asyncio.sleep(seconds)
        sent = await _count(looking) - before - 1
        return {"idle, statements a second": sent / (time.perf_counter() - began)}


async def _count(looking: psycopg.AsyncConnection[tuple[int]]) -> int:
    row = await (await looking.execute(COUNT)).fetchone()
    assert row is not None
    return int(row[0])


async def backlog(bench: Bench, url: str) -> Figures:
    """A drain with nothing behind it, and the same with a million waiting behind it, from the same queue."""
    number = bench.amount(DRAINED)
    alone = [await _drain(bench, number, fill=number) for _ in range(DRAINS)]
    await _fill(bench, bench.amount(BEHIND) + DRAINS * number)
    before = [await _drain(bench, number, fill=0) for _ in range(DRAINS)]
    return {"drain alone": statistics.median(alone), "drain before a backlog": statistics.median(before)}


async def _drain(bench: Bench, number: int, *, fill: int) -> float:
    """Jobs a second until so many are done. The worker has started before."""
    await _fill(bench, fill)
    done = asyncio.Event()
    left = number
    began = time.perf_counter()

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done.set()

    bench.counted = count
    async with bench.app.worker(concurrency=100):
        await done.wait()
        return number / (time.perf_counter() - began)


async def _fill(bench: Bench, number: int) -> None:
    for start in range(0, number, 50_000):
        await bench.app.enqueue_many([bench.tick.call() for _ in range(min(50_000, number - start))])
