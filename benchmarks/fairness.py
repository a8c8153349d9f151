"""`python -m benchmarks.fairness`: how long the first job of a new tenant waits behind the jobs of others.

The queue has a backlog of one tenant, of a hundred, of ten thousand. Ten slots run jobs of 5 ms.
A new tenant waits for a free slot, and for one turn of each tenant that was there before it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from headrace import App

from .case import loop_factory
from .drains import server_seconds_of
from .postgres_stand import Usage, bench_server
from .rows import Stand, loops_here

#: Jobs that wait, at scale 1, and how many tenants they have.
JOBS = 100_000
TENANTS = (1, 100, 10_000)

#: New tenants, one after the other.
SAMPLES = 5

SLOTS, NAP = 10, 0.005


class Queue:
    """An app with a backlog of so many tenants."""

    def __init__(self, url: str, tenants: int) -> None:
        self.app = App(url, namespace=f"fairness-{tenants}", history=0)
        self.began: dict[str, asyncio.Event] = {}
        self.runs = 0

        @self.app.task(name="work", tenant_by="tenant")
        async def work(tenant: str) -> None:
            self.runs += 1
            if tenant in self.began:
                self.began[tenant].set()
            await asyncio.sleep(NAP)

        self.work = work

    async def first_job_of(self, tenant: str) -> tuple[float, int]:
        """Milliseconds until it runs, and how many jobs began before it."""
        self.began[tenant] = asyncio.Event()
        began, runs = time.perf_counter(), self.runs
        await self.work.enqueue(tenant)
        await self.began[tenant].wait()
        return (time.perf_counter() - began) * 1000, self.runs - runs - 1


class Figures(msgspec.Struct):
    delay: float
    most_delay: float
    jobs_before: int
    server: float


async def measure(url: str, tenants: int, jobs: int, server_seconds: Callable[[], float]) -> Figures:
    queue = Queue(url, tenants)
    async with queue.app:
        await queue.app.enqueue_many([queue.work.call(f"old-{number % tenants}") for number in range(jobs)])
        async with queue.app.worker(concurrency=SLOTS):
            await queue.first_job_of("warms up")
            runs, theirs = queue.runs, server_seconds()
            samples = [await queue.first_job_of(f"new-{number}") for number in range(SAMPLES)]
            server = (server_seconds() - theirs) / (queue.runs - runs) * 1e6
    delays = [delay for delay, _ in samples]
    return Figures(statistics.median(delays), max(delays), max(count for _, count in samples), server)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.fairness")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--kind", default="valkey-9.1", help="the server")
    parser.add_argument("--stores", default="redis,postgres,sqlite")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    with ExitStack() as stack:
        if "redis" in options.stores:
            server = Stand(stack).server(options.kind)
            if server is None:
                parser.error(f"there is no {options.kind} here")
            _run(options.kind, server.url, options.scale, lambda: server_seconds_of(server))
        if "postgres" in options.stores:
            pg = stack.enter_context(bench_server())
            _run("postgres", pg.url, options.scale, lambda: Usage.of(pg).server)
        if "sqlite" in options.stores:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            _run("sqlite", f"sqlite:///{Path(folder) / 'jobs.db'}", options.scale, lambda: 0.0)


def _run(store: str, url: str, scale: float, server_seconds: Callable[[], float]) -> None:
    heads = ("p50, ms", "most, ms", "most jobs before", "server µs a job")
    print(f"{store:18}{''.join(f'{head:>18}' for head in heads)}")
    for tenants in TENANTS:
        # A new tenant may wait for a turn of each other one: so none runs out of jobs.
        jobs = max(round(JOBS * scale), tenants * (SAMPLES + 2))
        with asyncio.Runner(loop_factory=loop_factory(loops_here()[-1])) as runner:
            found = runner.run(measure(url, tenants, jobs, server_seconds))
        print(
            f"{tenants:<10,} tenants{found.delay:18.1f}{found.most_delay:18.1f}"
            f"{found.jobs_before:18,}{found.server:18.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
