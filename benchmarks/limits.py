"""`python -m benchmarks.limits`: a drain of jobs with limits that are not reached, beside a plain drain.
Others stand beside them in `limited.py`.

The kinds of jobs take turns, so that a busy machine affects them alike. The share of the speed is that of
jobs a second; the share of the cost is that of CPU time, of client and server together.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from headrace import App, Call, Limit
from tests.support.servers import Server

from .case import loop_factory
from .postgres_stand import Usage, bench_server
from .rows import Stand, loops_here

#: Jobs of one drain, at scale 1.
JOBS = 20_000

#: A limit that is never reached.
MANY = 1_000_000

#: How many values of a parameter have a limit of their own, and how many tenants there are.
KEYS, TENANTS = 1_000, 1_000


class Drain(msgspec.Struct):
    """The figures of one drain: jobs a second, and microseconds of a core for each job."""

    speed: float
    client: float
    server: float

    @property
    def cost(self) -> float:
        return self.client + self.server


class Kinds:
    """An app with a task of each kind."""

    def __init__(self, url: str) -> None:
        self.app = App(url, namespace="limits-bench", result_ttl=0)
        named = Limit("bench", max_running=MANY)
        keyed = Limit("by-key", max_running=MANY, by="number")
        self._tasks = {
            "plain": self.app.task(name="plain")(noop),
            "one limit": self.app.task(name="limited", limits=[named])(noop),
            f"{KEYS:,} keys": self.app.task(name="keyed", limits=[keyed])(noop),
            f"{TENANTS:,} tenants": self.app.task(name="tenants", tenant_by="number")(noop),
        }

    @property
    def names(self) -> list[str]:
        return list(self._tasks)

    def calls(self, kind: str, count: int) -> list[Call[None]]:
        task = self._tasks[kind]
        return [task.call(number % KEYS) for number in range(count)]


async def noop(number: int) -> None: ...


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.limits")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", default="valkey-9.1", help="the server")
    parser.add_argument("--stores", default="redis,postgres,sqlite")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    jobs = round(JOBS * options.scale)
    with ExitStack() as stack:
        if "redis" in options.stores:
            server = Stand(stack).server(options.kind)
            if server is None:
                parser.error(f"there is no {options.kind} here")
            _run(options.kind, server.url, jobs, options.rounds, lambda: server_seconds_of(server))
        if "postgres" in options.stores:
            pg = stack.enter_context(bench_server())
            _run("postgres", pg.url, jobs, options.rounds, lambda: Usage.of(pg).server)
        if "sqlite" in options.stores:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            _run("sqlite", f"sqlite:///{Path(folder) / 'jobs.db'}", jobs, options.rounds, lambda: 0.0)


def _run(store: str, url: str, jobs: int, rounds: int, server_seconds: Callable[[], float]) -> None:
    with asyncio.Runner(loop_factory=loop_factory(loops_here()[-1])) as runner:
        drains = runner.run(_measure(url, jobs, rounds, server_seconds))
    head = "".join(f"{name:>12}" for name in ("jobs/s", "client µs", "server µs", "speed", "cost"))
    print(f"{store:18}{head}")
    plain = drains["plain"]
    for kind, those in drains.items():
        median = Drain(*(statistics.median(values) for values in zip(*map(_figures, those), strict=True)))
        speed = statistics.median(one.speed / other.speed for one, other in zip(those, plain, strict=True))
        cost = statistics.median(other.cost / one.cost for one, other in zip(those, plain, strict=True))
        print(
            f"{kind:18}{median.speed:12,.0f}{median.client:12.1f}{median.server:12.1f}{speed:12.0%}{cost:12.0%}"
        )


def _figures(drain: Drain) -> tuple[float, float, float]:
    return drain.speed, drain.client, drain.server


async def _measure(
    url: str, jobs: int, rounds: int, server_seconds: Callable[[], float]
) -> dict[str, list[Drain]]:
    kinds = Kinds(url)
    drains: dict[str, list[Drain]] = {name: [] for name in kinds.names}
    async with kinds.app:
        for number in range(rounds + 1):
            for name in kinds.names if number % 2 else reversed(kinds.names):
                drain = await _drain(kinds, name, jobs if number else jobs // 10, server_seconds)
                if number:  # the first round only warms up
                    drains[name].append(drain)
    return drains


async def _drain(kinds: Kinds, kind: str, jobs: int, server_seconds: Callable[[], float]) -> Drain:
    await kinds.app.enqueue_many(kinds.calls(kind, jobs))
    began, ours, theirs = time.perf_counter(), _own_seconds(), server_seconds()
    await kinds.app.worker().run(burst=True)
    seconds, ours, theirs = (
        time.perf_counter() - began,
        _own_seconds() - ours,
        server_seconds() - theirs,
    )
    return Drain(jobs / seconds, ours / jobs * 1e6, theirs / jobs * 1e6)


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def server_seconds_of(server: Server) -> float:
    """CPU time that it has used."""
    told = str(server.command("INFO", "cpu"))
    return sum(float(found) for found in re.findall(r"used_cpu_(?:sys|user):([\d.]+)", told))


if __name__ == "__main__":
    main()
