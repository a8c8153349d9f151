"""Wait for whichever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def first_of(*awaitables: Awaitable[object]) -> None:
    """Wait until one of them is done; the others are cancelled. Errors are raised."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
