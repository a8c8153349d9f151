"""Something that is begun and must come to its end, whoever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def carried_through(work: Coroutine[Any, Any, None], hurry: Callable[[], None]) -> None:
    """Wait for `work` to its end. A cancellation does not cut it short, but calls `hurry`, and goes on its
    way afterwards."""
    task = asyncio.get_running_loop().create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as cancellation:
            hurry()
            cancelled = cancellation
    task.result()
    if cancelled is not None:
        raise cancelled
