"""The program that `benchmarks.instructions` counts: one operation, first for a few messages, then for many.

It imports headrace from the tree that `PYTHONPATH` names. What follows the time of the machine is fixed: the
pace that decides how many jobs are claimed in advance, and whether the server counts as far away. The cyclic
garbage collector is off: one more of its passes in a short run looks like a dearer job. So two trees are
compared with batches of the same size, however busy the machine is.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable

from headrace import App, Limit, Task
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import DONE, Settlement
from headrace.engine.intake.queue_reader import QueueReader
from headrace.stores import open_store

#: Jobs a second that the readers believe in while there is a backlog.
PACE = 5000.0

#: Messages that are claimed and settled at once, and the lease, in microseconds.
BATCH, LEASE_US = 100, 600_000_000

#: A limit that is never reached, and how many keys a limit by key has.
MANY, KEYS = 1_000_000, 1_000

Act = Callable[[int], Awaitable[object]]


def fix_pace() -> None:
    dry: set[int] = set()  # readers whose backlog is used up
    QueueReader._begin_anew = lambda self: dry.add(id(self))  # type: ignore[method-assign]
    QueueReader._measured_pace = lambda self: 0.0 if id(self) in dry else PACE  # type: ignore[method-assign]


def keep_near() -> None:
    from headrace.stores.redis.intake import poll

    poll.FRESH = 1e6


class Operations:
    """What is counted, and what is done before it."""

    def __init__(self, url: str) -> None:
        self.app = app = App(url)
        self._store = open_store(url)
        self._ran, self._awaited, self._reached = 0, 0, asyncio.Event()
        self._topic = app.topic("counted", dict)

        async def noop(number: int) -> None:
            pass

        @self._topic.subscribe(group="counted", start="beginning")
        async def handle(event: dict[str, int]) -> None:
            self._ran += 1
            if self._ran == self._awaited:
                self._reached.set()

        self._noop = app.task(name="noop")(noop)
        self._limited = app.task(name="limited", limits=[Limit("named", max_running=MANY)])(noop)
        self._keyed = app.task(name="keyed", limits=[Limit("by-key", max_running=MANY, by="number")])(noop)

    def of(self, name: str) -> tuple[Act | None, Act]:
        return {
            "enqueue": (None, self._enqueue),
            "enqueue_many": (None, self._enqueue_many),
            "enqueue_many limited": (None, self._enqueue_limited),
            "claim and settle": (self._enqueue_many, self._claim_and_settle),
            "claim and settle limited": (self._enqueue_limited, self._claim_and_settle),
            "claim and settle keyed": (self._enqueue_keyed, self._claim_and_settle),
            "run": (self._enqueue_many, self._run),
            "run limited": (self._enqueue_limited, self._run),
            "publish": (None, self._publish),
            "consume": (self._publish, self._consume),
        }[name]

    async def _enqueue(self, count: int) -> None:
        for number in range(count):
            await self._noop.enqueue(number)

    async def _enqueue_many(self, count: int) -> None:
        await self._enqueue_all(self._noop, count)

    async def _enqueue_limited(self, count: int) -> None:
        await self._enqueue_all(self._limited, count)

    async def _enqueue_keyed(self, count: int) -> None:
        await self._enqueue_all(self._keyed, count)

    async def _enqueue_all(self, task: Task[[int], None], count: int) -> None:
        await self.app.enqueue_many([task.call(number % KEYS) for number in range(count)])

    async def _claim_and_settle(self, count: int) -> None:
        """What a worker asks of the store, in batches of one size."""
        queue = Stream("queue", "default")
        await self._store.open()
        await self._store.declare_stream(queue, LEASE_US)
        while count:
            claims = await self._store.claim([queue], consumer="counted", limit=BATCH, suspects=1, wait=0)
            await self._store.settle([Settlement(claim, DONE) for claim in claims])
            count -= len(claims)
        await self._store.close()

    async def _run(self, count: int) -> None:
        await self.app.worker().run(burst=True)

    async def _publish(self, count: int) -> None:
        for number in range(count):
            await self._topic.publish({"number": number})

    async def _consume(self, count: int) -> None:
        self._awaited = self._ran + count
        self._reached.clear()
        async with self.app.worker(queues=[]):
            await self._reached.wait()


def at_gate() -> None:
    """Wait until `benchmarks.instructions` has begun, or ended, to count."""
    os.write(int(os.environ["GATE_OUT"]), b".")
    os.read(int(os.environ["GATE_IN"]), 1)


async def main(name: str, url: str, counts: list[int]) -> None:
    operations = Operations(url)
    prepare, act = operations.of(name)
    async with operations.app:
        for count in counts:
            if prepare is not None:
                await prepare(count)
            at_gate()
            await act(count)
            at_gate()


if __name__ == "__main__":
    gc.disable()
    fix_pace()
    if sys.argv[2].startswith("redis"):
        keep_near()
    asyncio.run(main(sys.argv[1], sys.argv[2], [int(count) for count in sys.argv[3:]]))
