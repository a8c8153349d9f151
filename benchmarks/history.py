"""`python -m benchmarks.history`: what the counts that plots are drawn from cost a drain.

On each store the same drain with and without them, by turns, in one process; `share` is the median of the one
divided by that of the other.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from headrace.engine.settling.traffic_counter import TrafficCounter

from .case import loop_factory
from .measures import Bench
from .rows import Stand, loops_here

#: Jobs of one drain.
NUMBER = 50_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.history")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"{'jobs a second':12}{'with':>12}{'without':>12}{'share':>10}")
    with ExitStack() as stack:
        for store, url in _urls(Stand(stack)):
            with asyncio.Runner(loop_factory=loop_factory(loops_here()[-1])) as runner:
                counted, uncounted = runner.run(_compare(url, options.rounds, options.scale))
            print(f"{store:12}{counted:12,.0f}{uncounted:12,.0f}{counted / uncounted:10.1%}")
            sys.stdout.flush()


def _urls(stand: Stand) -> Iterator[tuple[str, str]]:
    yield "memory", "memory://"
    yield "sqlite", f"sqlite:///{stand.folder()}/history.db"
    server = stand.server(stand.kind)
    assert server is not None
    yield stand.kind, server.url


async def _compare(url: str, rounds: int, scale: float) -> tuple[float, float]:
    """The median rate with the counts, and without them."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * rounds):
        # Neither of the two shall always be the first of a pair.
        counts = (number + number // 2) % 2 == 0
        with _counting(counts):
            rates[counts].append(await _rate(Bench(url, scale=scale)))
    return statistics.median(rates[True]), statistics.median(rates[False])


async def _rate(bench: Bench) -> float:
    number = bench.amount(NUMBER)
    async with bench.app:
        await bench.app.enqueue_many([bench.noop.call() for _ in range(number)])
        return number / await bench.drain()


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
