"""`python -m benchmarks.costs`: the CPU time that one job takes of the client and of the server, when jobs
come in bulk and when each comes alone. It is time of a core, so it moves little with what else runs."""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

from tests.support.servers import Server

from .case import loop_factory
from .drains import own_seconds, server_seconds_of
from .measures import Bench
from .rows import Stand, loops_here

#: Jobs of each way, at scale 1.
IN_BULK, ALONE = 50_000, 3_000

#: Seconds between two jobs that come alone: all that follows from one is over when the next is enqueued.
APART = 0.003


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.costs")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--kind", default="valkey-9.1")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    with ExitStack() as stack:
        server = Stand(stack).server(options.kind)
        if server is None:
            parser.error(f"there is no {options.kind} here")
        print(f"{'µs of a core for each job':30}{'client':>10}{options.kind:>14}")
        with asyncio.Runner(loop_factory=loop_factory(loops_here()[-1])) as runner:
            runner.run(_measure(server, options.scale))


async def _measure(server: Server, scale: float) -> None:
    bench = Bench(server.url, scale=scale)
    async with bench.app:
        await _show(server, "enqueue, in bulk", bench.amount(IN_BULK), lambda: _enqueue_many(bench))
        await _show(server, "run, with a backlog", bench.amount(IN_BULK), bench.drain)
        await _show(server, "enqueue, one by one", bench.amount(ALONE), lambda: _one_by_one(bench, 0.0))
        await bench.drain()
        async with bench.app.worker():
            await _show(
                server, "the life of one alone", bench.amount(ALONE), lambda: _one_by_one(bench, APART)
            )


async def _enqueue_many(bench: Bench) -> None:
    await bench.app.enqueue_many([bench.noop.call() for _ in range(bench.amount(IN_BULK))])


async def _one_by_one(bench: Bench, apart: float) -> None:
    for _ in range(bench.amount(ALONE)):
        await bench.noop.enqueue()
        if apart:
            await asyncio.sleep(apart)


async def _show(server: Server, what: str, number: int, act: Callable[[], Awaitable[object]]) -> None:
    ours, theirs = own_seconds(), server_seconds_of(server)
    await act()
    ours, theirs = own_seconds() - ours, server_seconds_of(server) - theirs
    print(f"{what:30}{ours / number * 1e6:10.1f}{theirs / number * 1e6:14.1f}")


if __name__ == "__main__":
    main()
