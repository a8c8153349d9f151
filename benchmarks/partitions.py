"""`python -m benchmarks.partitions`: what a queue reaches on a cluster of three nodes, in one part or six.

Each row is a process of its own that feeds and drains one queue; the nodes are processes on the loopback,
without replicas. Beside the jobs a second stands where the time goes: the share of one core that the client
and each node used meanwhile. On a machine with fewer cores than processes that want one, they take it from
each other: then read the seconds of a core for a million jobs, which do not depend on that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from tests.support.server_groups import BUS, QUICKLY, STANDS, Cluster, text_of
from tests.support.servers import HOST, available, require
from tests.support.waiting import wait_until_sync

from .case import loop_factory
from .measures import Bench, Figures
from .rows import loops_here

#: Jobs of one measurement at scale 1.
JOBS = 100_000

#: Jobs of one `enqueue_many`.
AT_ONCE = 5_000

#: Seconds after which a row is given up.
TIMEOUT = 300

_TICKS = os.sysconf("SC_CLK_TCK")


class Nodes(Cluster):
    """Three primaries and no replicas: those would take the time of a core from what is measured."""

    def __init__(self, kind: str, directory: Path) -> None:
        super().__init__(kind, directory)
        arguments = (*QUICKLY, "--cluster-enabled", "yes")
        self.servers = [
            self._make(require(kind), directory / f"primary-{number}", arguments, type(self.servers[0]))
            for number in range(self.primaries)
        ]

    def start(self) -> None:
        for epoch, server in enumerate(self.servers, 1):
            server.start()
            server.command("CLUSTER", "SET-CONFIG-EPOCH", epoch)
            server.command("CLUSTER", "ADDSLOTS", *self.slots_of(server))
        for server in self.servers[1:]:
            self.servers[0].command("CLUSTER", "MEET", HOST, server.port, server.port + BUS)
        wait_until_sync(self.is_whole, timeout=STANDS)

    def is_whole(self) -> bool:
        return all(b"cluster_state:ok" in text_of(server, "CLUSTER", "INFO") for server in self.servers)


class Used(NamedTuple):
    """Seconds of a core."""

    client: float
    nodes: tuple[float, ...]


def main() -> None:
    options = _options()
    logging.disable(logging.WARNING)
    if options.url:
        print(json.dumps(_in_this_process(options)))
        return
    results: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as folder, Nodes(options.kind, Path(folder)) as nodes:
        for number in range(options.rounds):
            for parts in options.parts:
                print(f"round {number + 1} of {options.rounds}: {parts} parts", file=sys.stderr)
                for server in nodes.servers:
                    server.command("FLUSHALL")
                for name, value in _measure(nodes, parts, options).items():
                    results[parts][name].append(value)
    medians = {
        parts: {name: statistics.median(values) for name, values in figures.items()}
        for parts, figures in results.items()
    }
    _show(medians, options.kind)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.partitions")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help=f"how much to do, 1 = {JOBS:,} jobs")
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 6])
    here = [kind for kind in ("valkey-9.1", "redis-7.0") if available().get(kind)]
    parser.add_argument("--kind", default=here[0] if here else "valkey-9.1")
    parser.add_argument("--loop", default=loops_here()[-1])
    parser.add_argument("--json", type=Path, help="write every figure of every round there")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--pids", type=int, nargs="*", default=[], help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(nodes: Nodes, parts: int, options: argparse.Namespace) -> Figures:
    command = [sys.executable, "-m", "benchmarks.partitions", "--url", nodes.url, "--parts", str(parts)]
    command += ["--scale", str(options.scale), "--loop", options.loop]
    command += ["--pids", *(str(server.pid) for server in nodes.servers)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


# --- one row ---------------------------------------------------------------------------------------------


def _in_this_process(options: argparse.Namespace) -> Figures:
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        return runner.run(_feed_and_drain(options.url, options.parts[0], options.scale, options.pids))


async def _feed_and_drain(url: str, parts: int, scale: float, pids: list[int]) -> Figures:
    bench = Bench(url, scale=scale)
    async with bench.app:
        bench.app.queue("default", partitions=parts)
        number = bench.amount(JOBS)

        async def feed() -> None:
            for start in range(0, number, AT_ONCE):
                calls = [bench.noop.call() for _ in range(min(AT_ONCE, number - start))]
                await bench.app.enqueue_many(calls)

        async def drain() -> None:
            await bench.drain()

        await bench.noop.enqueue()
        await drain()
        return {
            **await _timed("enqueue_many", feed, number, pids),
            **await _timed("drain", drain, number, pids),
        }


async def _timed(name: str, act: Callable[[], Awaitable[None]], number: int, pids: list[int]) -> Figures:
    before, began = _used(pids), time.perf_counter()
    await act()
    seconds = time.perf_counter() - began
    after = _used(pids)
    nodes = [end - start for start, end in zip(before.nodes, after.nodes, strict=True)]
    client = after.client - before.client
    return {
        f"{name}, a second": number / seconds,
        f"{name}, client's core": client / seconds,
        f"{name}, busiest node's core": max(nodes) / seconds,
        f"{name}, all nodes' cores": sum(nodes) / seconds,
        f"{name}, client s a million": client / number * 1e6,
        f"{name}, nodes s a million": sum(nodes) / number * 1e6,
    }


def _used(pids: list[int]) -> Used:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return Used(own.ru_utime + own.ru_stime, tuple(map(_used_by, pids)))


def _used_by(pid: int) -> float:
    """Of another process: the fields behind its name in parentheses, which may hold anything."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _show(medians: dict[int, Figures], kind: str) -> None:
    table = Table(title=f"one queue on three nodes of {kind}, medians")
    table.add_column("")
    for parts in medians:
        table.add_column(f"{parts} part" if parts == 1 else f"{parts} parts", justify="right")
    for name in next(iter(medians.values())):
        cells = [medians[parts][name] for parts in medians]
        table.add_row(name, *(f"{cell:,.0f}" if cell >= 100 else f"{cell:.2f}" for cell in cells))
    Console().print(table)


if __name__ == "__main__":
    main()
