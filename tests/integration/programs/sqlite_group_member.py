"""A process that is a member of two groups of a SQLite store, one of them ordered, until it is killed.

It writes a line `group id` to a file that all members share, before it settles an event; so the lines stand
in the order in which events were handled.
"""

from __future__ import annotations

import asyncio
import os
import sys

from headrace.core.messages.message import group_stream
from headrace.core.messages.outcome import DONE, Settlement
from headrace.core.runtime.clock import SECOND
from headrace.core.topics.topic import BEGINNING
from tests.support.routers import open_router

#: Seconds. No lease is renewed here: a member that is not killed settles at once.
LEASE = 8

PLAIN, ORDERED = group_stream("orders", "billing"), group_stream("orders", "index")


async def main(url: str, notes: str) -> None:
    backend = open_router(url)
    await backend.open()
    sources = [PLAIN, ORDERED]
    for source in sources:
        await backend.join(source, BEGINNING, ordered=source == ORDERED)
        await backend.declare_stream(source, LEASE * SECOND)
    file = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    consumer = f"process-{os.getpid()}"
    while True:
        claims = await backend.claim(sources, consumer=consumer, limit=10, suspects=10, wait=0.5)
        lines = [f"{claim.whole.group} {claim.id}\n" for claim in claims]
        os.write(file, "".join(lines).encode())
        await backend.settle([Settlement(claim, DONE) for claim in claims])
        await backend.reclaim(sources, limit=100)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
