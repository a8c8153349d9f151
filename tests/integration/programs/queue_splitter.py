"""Begins to split a queue and is killed between two steps, for tests that look at what becomes of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from headrace.core.messages.message import Stream
from headrace.core.rules.layout import parts_of
from headrace.stores import open_store
from tests.support.queue_split_steps import adopt, propose, seal


async def split(url: str, queue: Stream, parts: int, steps: int) -> None:
    """So many steps: the proposal, a seal for each part, the adoption."""
    store = open_store(url)
    await store.open()
    layout = await propose(store, queue, parts)
    for part in parts_of(queue, layout.current)[: steps - 1]:
        await seal(store, part)
    if steps > layout.current.parts + 1:
        await adopt(store, queue)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(split(sys.argv[1], Stream("queue", sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
