"""Runs the steps of a shutdown one after the other. No step is left out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

#: Seconds after `hurry`: for a single step, and for all remaining steps together.
QUICK_STEP, QUICK_ALL = 0.3, 1.4

#: Seconds that a handler has to end after its last cancellation.
CANCEL_WAIT = 1.0

ShutdownStep = Callable[[], Coroutine[Any, Any, object]]

#: Seconds that a step gets when that time is used up.
LAST_CHANCE = 0.02


class Shutdown:
    """Runs every step, even when the caller is cancelled. After `hurry` no step delays the others for long,
    whatever the store does."""

    def __init__(self, hurry: asyncio.Event, failed: Callable[[BaseException], None]) -> None:
        self._hurry = hurry
        self._failed = failed
        self._until: float | None = None  # the end of all steps, by `time.monotonic`; set after `hurry`

    async def take(self, step: ShutdownStep, at_most: float = QUICK_STEP) -> None:
        """Run one step. Start it a second time when it was cancelled with all other tasks of the loop."""
        for _ in range(2):
            task = asyncio.get_running_loop().create_task(step())
            in_time = await self._waited_for(task, at_most)
            if not in_time:
                task.cancel()
                return
            if not task.cancelled():
                break
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failed(error)

    async def _waited_for(self, task: asyncio.Task[object], at_most: float) -> bool:
        """Wait for the step; False: `hurry` is set, and the step took too long."""
        hurried: asyncio.Task[Any] | None = None
        began_to_hurry: float | None = None
        while not task.done():
            if self._hurry.is_set():
                now = time.monotonic()
                began_to_hurry = now if began_to_hurry is None else began_to_hurry
                left = min(began_to_hurry + at_most, self._deadline()) - now
                if left <= 0 and now - began_to_hurry >= LAST_CHANCE:
                    return False
                await self._wait([task], max(left, LAST_CHANCE))
            else:
                hurried = hurried or asyncio.get_running_loop().create_task(self._hurry.wait())
                await self._wait([task, hurried], None)
                if hurried.cancelled():
                    hurried = None
        if hurried is not None:
            hurried.cancel()
        return True

    async def _wait(self, tasks: list[asyncio.Task[Any]], timeout: float | None) -> None:
        try:
            await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._hurry.set()  # the loop is about to end: little time is left, but every step still runs

    def _deadline(self) -> float:
        if self._until is None:
            self._until = time.monotonic() + QUICK_ALL
        return self._until
