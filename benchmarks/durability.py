"""`python -m benchmarks.durability`: what each level of durability costs, and what the store says of it.

Every row is a process of its own. Rows run in turn, in rounds; figures are medians, and shares are those of
the first row of the same store in the same run. Levels that cannot be had are asked for as well: their rows
show how they are refused.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from headrace import App, HeadraceError
from tests.support.server_groups import QUICKLY, replicas_of
from tests.support.servers import HOST, Server, available
from tests.support.waiting import wait_until_sync

from .case import loop_factory
from .measures import Figures
from .rows import KINDS, loops_here

#: Jobs that are enqueued at most in each way, at scale 1, and jobs that are drained.
ONE_BY_ONE, MANY, DRAINED = 3_000, 50_000, 20_000

#: Seconds that each way of enqueueing may take: where each waits for the disk's turn there are few a second.
LONGEST = 5.0

#: Coroutines that enqueue side by side, and jobs of one `enqueue_many`.
TOGETHER, AT_ONCE = 100, 5_000

#: Lines of the doctor that tell what an accepted job is worth.
TOLD = ("durability", "persistence", "replication")

#: Seconds after which a row is given up.
TIMEOUT = 120


class Level(NamedTuple):
    """A row: the level that the app asks for, of a store that keeps its promises in a certain way."""

    store: str
    keeps: str
    level: str
    url: str

    @property
    def name(self) -> str:
        return f"{self.store}, {self.keeps}: {self.level}" if self.keeps else f"{self.store}: {self.level}"


class Measured(NamedTuple):
    """What all rounds of a row brought; `said` is the doctor's word, or why there is nothing to measure."""

    figures: dict[str, list[float]]
    said: dict[str, str]


def main() -> None:
    options = _options()
    logging.disable(logging.WARNING)
    if options.url:
        print(json.dumps(_in_this_process(options)))
        return
    results: dict[Level, Measured] = defaultdict(lambda: Measured(defaultdict(list), {}))
    with ExitStack() as stack:
        levels = list(_levels(stack, options.kinds.split(",")))
        for number in range(options.rounds):
            for level in levels:
                print(f"round {number + 1} of {options.rounds}: {level.name}", file=sys.stderr)
                _measure(level, options.scale, results[level])
    _show(results)
    if options.json:
        told = {level.name: measured._asdict() for level, measured in results.items()}
        options.json.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.durability")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="how much to do, 1 = 20,000 jobs drained")
    here = [kind for kind in KINDS if available().get(kind)]
    parser.add_argument("--kinds", default=",".join(["sqlite", *here[:2]]))
    parser.add_argument("--json", type=Path, help="write every figure of every round there")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--level", help=argparse.SUPPRESS)
    return parser.parse_args()


# --- the stores ------------------------------------------------------------------------------------------


def _levels(stack: ExitStack, kinds: list[str]) -> Iterator[Level]:
    for kind in kinds:
        if kind == "sqlite":
            for level in ("default", "relaxed"):
                yield Level("sqlite", "", level, f"sqlite:///{_folder(stack)}/bench.db")
        else:
            yield from _on_servers(stack, kind)


def _on_servers(stack: ExitStack, kind: str) -> Iterator[Level]:
    program = available()[kind]
    assert program is not None, f"there is no {kind} here"

    def server(*arguments: str, appendonly: bool = False) -> Server:
        folder = _folder(stack)
        made = Server(program, directory=folder, appendonly=appendonly, arguments=(*QUICKLY, *arguments))
        return stack.enter_context(made)

    none = server()
    everysec = server("--appendfsync", "everysec", appendonly=True)
    always = server("--appendfsync", "always", appendonly=True)
    followed = server()
    server("--replicaof", HOST, str(followed.port))
    wait_until_sync(lambda: replicas_of(followed) == 1, timeout=20, message="the replica follows")
    yield Level(kind, "nothing on disk", "default", none.url)
    yield Level(kind, "AOF everysec", "default", everysec.url)
    yield Level(kind, "AOF always", "default", always.url)
    yield Level(kind, "AOF everysec", "fsync", everysec.url)
    yield Level(kind, "AOF always", "fsync", always.url)
    yield Level(kind, "nothing on disk, a replica", "default", followed.url)
    yield Level(kind, "nothing on disk, a replica", "replicated", followed.url)
    # What is not to be had.
    yield Level(kind, "nothing on disk", "fsync", none.url)
    yield Level(kind, "nothing on disk, no replica", "replicated", none.url)


def _folder(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-durability-")))


def _measure(level: Level, scale: float, measured: Measured) -> None:
    """A row that fails says so, and does not spoil the others."""
    command = [sys.executable, "-m", "benchmarks.durability", "--url", level.url, "--level", level.level]
    try:
        done = subprocess.run(
            [*command, "--scale", str(scale)], check=True, capture_output=True, text=True, timeout=TIMEOUT
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        words = str(error.stderr or "").strip().splitlines()
        measured.said["failed"] = words[-1] if words else str(error)
        return
    answer = json.loads(done.stdout.splitlines()[-1])
    measured.said.update(answer["said"])
    for figure, value in answer["figures"].items():
        measured.figures[figure].append(value)


# --- one row, in a process of its own --------------------------------------------------------------------


def _in_this_process(options: argparse.Namespace) -> dict[str, Any]:
    with asyncio.Runner(loop_factory=loop_factory(loops_here()[-1])) as runner:
        return runner.run(measure(options.url, options.level, options.scale))


async def measure(url: str, level: Any, scale: float) -> dict[str, Any]:
    """The figures of a level, and what is said of it."""
    bench = Bench(url, level, scale)
    said: dict[str, str] = {}
    figures: Figures = {}
    try:
        async with bench.app, bench.filler:
            said |= await _said(bench.app)
            for way in WAYS:
                figures |= await way(bench)
    except HeadraceError as error:
        # Nothing may be told of a level that was not held: not even what was fast before.
        return {"said": {**said, type(error).__name__: str(error)}, "figures": {}}
    finally:
        await _cleared(url)
    return {"said": said, "figures": figures}


class Bench:
    """`filler` makes the jobs that are drained: how they came there is not what is measured then."""

    def __init__(self, url: str, level: Any, scale: float) -> None:
        self.app = App(url, durability=level, result_ttl=0)
        self.filler = App(url, result_ttl=0)
        self.scale = scale

        async def noop() -> None:
            pass

        self.noop = self.app.task(name="noop")(noop)
        self.filling = self.filler.task(name="noop")(noop)

    def amount(self, number: int) -> int:
        return max(10, int(number * self.scale))


async def _said(app: App) -> dict[str, str]:
    """What the doctor says of this level on this store."""
    findings = await app.admin.doctor()
    return {finding.name: f"{finding.level}: {finding.text}" for finding in findings if finding.name in TOLD}


async def one_by_one(bench: Bench) -> Figures:
    """A lone producer that waits for each enqueue."""
    return {"one by one": await _rate(bench.amount(ONE_BY_ONE), 1, lambda number: bench.noop.enqueue())}


async def together(bench: Bench) -> Figures:
    """A hundred coroutines that each wait for theirs: what gathers meanwhile shares one confirmation."""
    share = bench.amount(MANY) // TOGETHER or 1
    rates = await asyncio.gather(
        *(_rate(share, 1, lambda number: bench.noop.enqueue()) for _ in range(TOGETHER))
    )
    return {f"{TOGETHER} coroutines": sum(rates)}


async def in_bulk(bench: Bench) -> Figures:
    """`enqueue_many`."""

    async def enqueue(number: int) -> None:
        await bench.app.enqueue_many([bench.noop.call() for _ in range(number)])

    return {"enqueue_many": await _rate(bench.amount(MANY), AT_ONCE, enqueue)}


async def drain(bench: Bench) -> Figures:
    """A burst worker of an app with this level. On Redis no level waits for the ends of jobs."""
    await bench.app.admin.purge("default")
    number = bench.amount(DRAINED)
    for start in range(0, number, AT_ONCE):
        await bench.filler.enqueue_many([bench.filling.call() for _ in range(min(AT_ONCE, number - start))])
    began = time.perf_counter()
    await bench.app.worker().run(burst=True)
    return {"drain": number / (time.perf_counter() - began)}


WAYS: tuple[Callable[[Bench], Awaitable[Figures]], ...] = (one_by_one, together, in_bulk, drain)


async def _rate(most: int, step: int, enqueue: Callable[[int], Awaitable[object]]) -> float:
    """Jobs a second, of at most so many and for not much longer than allowed."""
    done, began = 0, time.perf_counter()
    while done < most and time.perf_counter() - began < LONGEST:
        number = min(step, most - done)
        await enqueue(number)
        done += number
    return done / (time.perf_counter() - began)


async def _cleared(url: str) -> None:
    """Rows share their server."""
    async with App(url) as app:
        await app.admin.purge("default")


# --- for people ------------------------------------------------------------------------------------------


def _show(results: dict[Level, Measured]) -> None:
    console = Console(width=190)
    table = Table(title="jobs a second (median of the rounds), one process")
    figures = list(dict.fromkeys(figure for measured in results.values() for figure in measured.figures))
    table.add_column("")
    for figure in figures:
        table.add_column(figure, justify="right")
    first: dict[str, Measured] = {}
    for level, measured in results.items():
        beside = first.setdefault(level.store, measured)
        table.add_row(level.name, *(_cell(measured, beside, figure) for figure in figures))
    console.print(table)
    for level, measured in results.items():
        console.print(f"[bold]{level.name}[/bold]")
        for name, text in measured.said.items():
            console.print(f"  {name}: {text}", highlight=False, markup=False)


def _cell(measured: Measured, beside: Measured, figure: str) -> str:
    if not measured.figures.get(figure):
        return "-"
    value = statistics.median(measured.figures[figure])
    if measured is beside or not beside.figures.get(figure):
        return f"{value:,.0f}"
    return f"{value:,.0f} ({value / statistics.median(beside.figures[figure]):.2f})"


if __name__ == "__main__":
    main()
