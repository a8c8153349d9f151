"""Drains of several kinds, by turns, so that a busy machine affects them alike: their speed and their cost.

The share of the speed is that of jobs a second; the share of the cost is that of CPU time, of client and
server together.
"""

from __future__ import annotations

import re
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from headrace import App, Call
from tests.support.servers import Server

from .postgres_stand import Usage, bench_server
from .rows import Stand

#: What tells the CPU seconds that a server has used.
Seconds = Callable[[], float]


class Drain(msgspec.Struct):
    """The figures of one drain: jobs a second, and microseconds of a core for each job."""

    speed: float
    client: float
    server: float

    @property
    def cost(self) -> float:
        return self.client + self.server


def stores_here(stack: ExitStack, stores: str, kind: str) -> Iterator[tuple[str, str, Seconds]]:
    """The name and the URL of each of these stores, and the CPU seconds of its server."""
    if "redis" in stores:
        server = Stand(stack).server(kind)
        if server is None:
            sys.exit(f"benchmarks: there is no {kind} here")
        yield kind, server.url, lambda: server_seconds_of(server)
    if "postgres" in stores:
        pg = stack.enter_context(bench_server())
        yield "postgres", pg.url, lambda: Usage.of(pg).server
    if "sqlite" in stores:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        yield "sqlite", f"sqlite:///{Path(folder) / 'jobs.db'}", lambda: 0.0


async def by_turns(
    kinds: Sequence[str], drain: Callable[[str, int], Awaitable[Drain]], *, jobs: int, rounds: int
) -> dict[str, list[Drain]]:
    """A drain of each kind in each round."""
    drains: dict[str, list[Drain]] = {name: [] for name in kinds}
    for number in range(rounds + 1):
        for name in kinds if number % 2 else reversed(kinds):
            measured = await drain(name, jobs if number else jobs // 10)
            if number:  # the first round only warms up
                drains[name].append(measured)
    return drains


async def drained(app: App, calls: Sequence[Call[None]], server_seconds: Seconds) -> Drain:
    """Enqueue these jobs, and measure the worker that runs them."""
    await app.enqueue_many(calls)
    began, ours, theirs = time.perf_counter(), own_seconds(), server_seconds()
    await app.worker().run(burst=True)
    seconds = time.perf_counter() - began
    used = own_seconds() - ours, server_seconds() - theirs
    return Drain(len(calls) / seconds, *(each / len(calls) * 1e6 for each in used))


def show(store: str, drains: Mapping[str, Sequence[Drain]]) -> None:
    """Each kind, and its share of the speed and of the cost of the first."""
    head = "".join(f"{name:>12}" for name in ("jobs/s", "client µs", "server µs", "speed", "cost"))
    print(f"{store:18}{head}")
    first = next(iter(drains.values()))
    for kind, those in drains.items():
        figures = zip(*((each.speed, each.client, each.server) for each in those), strict=True)
        median = Drain(*map(statistics.median, figures))
        speed = statistics.median(one.speed / other.speed for one, other in zip(those, first, strict=True))
        cost = statistics.median(one.cost / other.cost for one, other in zip(those, first, strict=True))
        print(
            f"{kind:18}{median.speed:12,.0f}{median.client:12.1f}{median.server:12.1f}"
            f"{speed:12.1%}{cost:12.1%}",
            flush=True,
        )


def own_seconds() -> float:
    """CPU time that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def server_seconds_of(server: Server) -> float:
    """CPU time that it has used."""
    told = str(server.command("INFO", "cpu"))
    return sum(float(found) for found in re.findall(r"used_cpu_(?:sys|user):([\d.]+)", told))
