"""What the check of arguments costs: CPU time of `enqueue_many` with it, as a ratio of that without it.

    python -m benchmarks.validation [URL]

Both apps are in one process, and their rounds take turns, so that a busy machine affects both alike.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace import App, Call, Task

#: Jobs of one round, and rounds.
JOBS, ROUNDS = 5_000, 21


class Document(msgspec.Struct):
    number: int
    title: str
    words: list[str]


class Side:
    """An app with or without the check, and the times of its rounds."""

    def __init__(self, url: str, *, validate: bool) -> None:
        self.seconds: list[float] = []
        self.app = App(url, namespace=f"validation-{validate}", validate=validate)
        self.add: Task[[int, int], None] = self.app.task(name="add", result_ttl=0)(_add)
        self.index: Task[[Document], None] = self.app.task(name="index", result_ttl=0)(_index)

    def calls(self, kind: str) -> list[Call[Any]]:
        if kind == "two numbers":
            return [self.add.call(number, number) for number in range(JOBS)]
        document = Document(7, "a title of a document", ["some", "words"])
        return [self.index.call(document) for _ in range(JOBS)]

    async def round(self, calls: Sequence[Call[Any]]) -> None:
        began = time.process_time()
        await self.app.enqueue_many(calls)
        self.seconds.append(time.process_time() - began)
        await self.app.admin.purge("default")


async def _add(a: int, b: int) -> None: ...


async def _index(document: Document) -> None: ...


async def main(url: str) -> None:
    sides = [Side(url, validate=True), Side(url, validate=False)]
    for kind in ("two numbers", "a struct"):
        for side in sides:
            side.seconds.clear()
        for number in range(ROUNDS):
            for side in sides if number % 2 else reversed(sides):
                await side.round(side.calls(kind))
        checked, plain = (side.seconds[1:] for side in sides)  # the first round sets decoders up
        ratio = statistics.median(one / other for one, other in zip(checked, plain, strict=True))
        each = statistics.median(plain) / JOBS * 1e6
        print(f"{kind}: {each:.2f} µs a job without the check, {ratio:.3f} times that with it")
    for side in sides:
        await side.app.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory://"))
