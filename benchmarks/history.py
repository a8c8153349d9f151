"""`python -m benchmarks.history`: what the history of jobs that have ended costs a drain, and what the counts
that plots are drawn from cost it. A drain with `history=0` stands beside both."""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from headrace import App
from headrace.engine.settling.traffic_counter import TrafficCounter

from .case import loop_factory
from .drains import Drain, Seconds, by_turns, drained, show, stores_here
from .rows import loops_here

#: Jobs of one drain, at scale 1.
JOBS = 50_000

WITHOUT, BY_DEFAULT, ALL, UNCOUNTED = "history=0", "by default", 'history="all"', "no counts"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.history")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--kind", default="valkey-9.1", help="the server")
    parser.add_argument("--stores", default="redis,postgres,sqlite")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    jobs = round(JOBS * options.scale)
    with ExitStack() as stack:
        for store, url, server_seconds in stores_here(stack, options.stores, options.kind):
            with asyncio.Runner(loop_factory=loop_factory(loops_here()[-1])) as runner:
                show(store, runner.run(_measure(url, jobs, options.rounds, server_seconds)))


async def _measure(url: str, jobs: int, rounds: int, server_seconds: Seconds) -> dict[str, list[Drain]]:
    apps = {
        WITHOUT: App(url, namespace="without", history=0),
        BY_DEFAULT: App(url, namespace="default"),
        ALL: App(url, namespace="all", history="all"),
        UNCOUNTED: App(url, namespace="uncounted", history=0),
    }
    tasks = {way: app.task(name="noop")(noop) for way, app in apps.items()}

    async def drain(way: str, count: int) -> Drain:
        with _counting(way != UNCOUNTED):
            return await drained(apps[way], [tasks[way].call() for _ in range(count)], server_seconds)

    try:
        return await by_turns(list(apps), drain, jobs=jobs, rounds=rounds)
    finally:
        for app in apps.values():
            await app.close()


async def noop() -> None: ...


@contextmanager
def _counting(counts: bool) -> Iterator[None]:
    if counts:
        yield
        return
    with patch.multiple(TrafficCounter, count=_nothing, count_done=_nothing):
        yield


def _nothing(*given: object) -> None:
    """What is not counted is not written either."""


if __name__ == "__main__":
    main()
