"""`python -m benchmarks.churn --minutes 30`: PostgreSQL at full speed for a long time.

A producer keeps some thousands of jobs waiting, and a worker runs them. Each line has the speed and the CPU
time of client and server for a job in one interval, so that other work on the machine can be told from
slowness, then the sizes of table and indexes, and the dead rows. `--hold` keeps a transaction open.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import psycopg

from headrace import App

from .case import loop_factory
from .postgres_stand import Usage, bench_server
from .rows import loops_here

#: Jobs that wait at any time, and jobs of one `enqueue_many`.
WAITING, PORTION = 5_000, 1_000

#: Begins a transaction that keeps vacuum from removing what is deleted from now on.
HOLD = b"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM headrace.meta"

SIZES = b"""
SELECT pg_relation_size('headrace.messages') >> 10, pg_relation_size('headrace.messages_id') >> 10,
    pg_relation_size('headrace.messages_place') >> 10,
    (SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'headrace.messages'::regclass),
    (SELECT autovacuum_count FROM pg_stat_user_tables WHERE relid = 'headrace.messages'::regclass),
    pg_current_wal_lsn() - '0/0'
"""


class Interval(NamedTuple):
    """What one interval brought. CPU times are microseconds for a job; sizes are KiB."""

    seconds: float
    jobs: float
    client: float
    server: float
    table: int
    ids: int
    places: int
    dead: int
    vacuums: int
    wal: float

    def line(self) -> str:
        return (
            f"{self.seconds:7.0f} s {self.jobs:8,.0f} jobs/s"
            f"   CPU {self.client:5.1f} + {self.server:5.1f} us/job   WAL {self.wal:5.0f} B/job"
            f"   table {self.table:,} KiB, indexes {self.ids:,} and {self.places:,} KiB"
            f"   dead rows {self.dead:,}, vacuums {self.vacuums}"
        )


class Churn:
    def __init__(self, url: str) -> None:
        self.app = App(url)
        self.done = 0

        @self.app.task(name="count", result_ttl=0)
        async def count() -> None:
            self.done += 1

        self.count = count

    async def produce(self, until: float) -> int:
        """Keep jobs waiting; how many were enqueued."""
        sent = 0
        while time.perf_counter() < until:
            if sent - self.done < WAITING:
                await self.app.enqueue_many([self.count.call() for _ in range(PORTION)])
                sent += PORTION
            else:
                await asyncio.sleep(0.001)
        return sent


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.churn", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=float, default=60, help="seconds of an interval")
    parser.add_argument("--hold", action="store_true", help="keep a transaction open all that time")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    with bench_server() as server, asyncio.Runner(loop_factory=loop_factory(loops_here()[-1])) as runner:
        lines = runner.run(churn(server, options.minutes * 60, options.every, hold=options.hold))
    _conclude(lines)


async def churn(server: Any, seconds: float, every: float, *, hold: bool) -> list[Interval]:
    churn = Churn(server.url)
    lines: list[Interval] = []
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(churn.app)
        await churn.count.enqueue()
        looking = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
        await stack.enter_async_context(looking)
        if hold:
            holding = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
            await stack.enter_async_context(holding)
            await holding.execute(HOLD)
        until = time.perf_counter() + seconds
        await stack.enter_async_context(churn.app.worker())
        producing = asyncio.create_task(churn.produce(until))
        began = time.perf_counter()
        while time.perf_counter() < until:
            lines.append(await _interval(churn, server, looking, every, began))
            print(lines[-1].line(), flush=True)
            if producing.done():
                break
        await producing
    return lines


async def _interval(
    churn: Churn, server: Any, looking: psycopg.AsyncConnection[Any], every: float, began: float
) -> Interval:
    used, done, at, before = Usage.of(server), churn.done, time.perf_counter(), await _sizes(looking)
    await asyncio.sleep(every)
    jobs = max(churn.done - done, 1)
    cost, now = Usage.of(server).since(used), time.perf_counter()
    sizes = await _sizes(looking)
    wal = float(sizes[-1] - before[-1]) / jobs
    client, server_cost = cost.client / jobs * 1e6, cost.server / jobs * 1e6
    table, ids, places, dead, vacuums, _ = sizes
    speed = jobs / (now - at)
    return Interval(now - began, speed, client, server_cost, table, ids, places, dead, vacuums, wal)


async def _sizes(looking: psycopg.AsyncConnection[Any]) -> tuple[Any, ...]:
    row = await (await looking.execute(SIZES)).fetchone()
    assert row is not None
    return tuple(row)


def _conclude(lines: list[Interval]) -> None:
    """The last fifth beside the first, without the first interval, which has the beginnings."""
    rest = lines[1:] or lines
    part = max(len(rest) // 5, 1)
    first, last = rest[:part], rest[-part:]
    speed = _mean(last, "jobs") / _mean(first, "jobs")
    cost = (_mean(last, "client") + _mean(last, "server")) / (_mean(first, "client") + _mean(first, "server"))
    print(
        f"speed at the end: {speed:.0%} of that at the start; CPU time for a job: {cost:.0%} (asked: ≤ 110%)"
    )


def _mean(lines: list[Interval], figure: str) -> float:
    return float(sum(getattr(line, figure) for line in lines) / len(lines))


if __name__ == "__main__":
    main()
