"""Starts calls that wait for something, and says how long a test waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from headrace.core.messages.claim import Claim

T = TypeVar("T")

#: Seconds that a call would wait if nothing woke it, and within which a woken one must be back.
LONG, SOON = 50.0, 10.0


async def started(call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A call that waits, or is about to: which of the two must make no difference."""
    task = asyncio.ensure_future(call)
    for _ in range(3):
        await asyncio.sleep(0)
    return task


async def soon(task: asyncio.Task[T]) -> T:
    return await asyncio.wait_for(task, SOON)


async def claimed(claiming: asyncio.Task[list[Claim]]) -> list[str]:
    return [claim.id for claim in await soon(claiming)]
