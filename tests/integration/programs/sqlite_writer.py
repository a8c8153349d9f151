"""A process that works a SQLite store as hard as it can and says what was acknowledged, until it is killed.

Lines on its output: `+ id` was appended, `- id` was settled with a kept result.
"""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.messages.outcome import Done, Kept, Settlement
from headrace.core.runtime.clock import SECOND
from headrace.engine.streams import StreamRouter
from tests.support.routers import open_router

STREAM = Stream("queue", "work")
SOURCE = STREAM


def say(sign: str, ids: list[str]) -> None:
    os.write(1, "".join(f"{sign} {id}\n" for id in ids).encode())


async def produce(backend: StreamRouter, name: str) -> None:
    for number in count(1):
        messages = [Message(new_id(), "greet", os.urandom(300)) for _ in range(number % 7 + 1)]
        await backend.append(Batch(STREAM, name, number, messages))
        say("+", [message.id for message in messages])


async def consume(backend: StreamRouter, name: str) -> None:
    while True:
        claims = await backend.claim([SOURCE], consumer=name, limit=5, suspects=1, wait=1)
        done = Done(Kept(b"done", 3600 * SECOND))
        await backend.settle([Settlement(claim, done) for claim in claims])
        say("-", [claim.id for claim in claims])


async def main(url: str) -> None:
    backend = open_router(url)
    await backend.open()
    await backend.declare_stream(SOURCE, 15 * SECOND)
    name = f"process-{os.getpid()}"
    await asyncio.gather(
        *[produce(backend, f"{name}-{number}") for number in range(4)],
        *[consume(backend, f"{name}-{number}") for number in range(2)],
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
