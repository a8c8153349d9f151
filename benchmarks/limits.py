"""`python -m benchmarks.limits`: a drain of jobs with limits that are not reached, beside a plain drain.
Others stand beside them in `limited.py`."""

from __future__ import annotations

import argparse
import asyncio
import logging
from contextlib import ExitStack

from headrace import App, Call, Limit

from .case import loop_factory
from .drains import Drain, Seconds, by_turns, drained, show, stores_here
from .rows import loops_here

#: Jobs of one drain, at scale 1.
JOBS = 20_000

#: A limit that is never reached.
MANY = 1_000_000

#: How many values of a parameter have a limit of their own, and how many tenants there are.
KEYS, TENANTS = 1_000, 1_000


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
        for store, url, server_seconds in stores_here(stack, options.stores, options.kind):
            with asyncio.Runner(loop_factory=loop_factory(loops_here()[-1])) as runner:
                show(store, runner.run(_measure(url, jobs, options.rounds, server_seconds)))


async def _measure(url: str, jobs: int, rounds: int, server_seconds: Seconds) -> dict[str, list[Drain]]:
    kinds = Kinds(url)

    async def drain(kind: str, count: int) -> Drain:
        return await drained(kinds.app, kinds.calls(kind, count), server_seconds)

    async with kinds.app:
        return await by_turns(kinds.names, drain, jobs=jobs, rounds=rounds)


if __name__ == "__main__":
    main()
