"""Notices that every task of the event loop is cancelled."""

from __future__ import annotations

import asyncio


class LoopEnd:
    """Holds a task that only the event loop itself knows. So it is cancelled only together with all others,
    as `asyncio.run` does when its main function has ended."""

    def __init__(self) -> None:
        self._closed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._wait(), name="headrace loop end")
        # A loop that is closed without this must not warn about the task.
        self._task._log_destroy_pending = False  # type: ignore[attr-defined]

    @property
    def seen(self) -> bool:
        """Whether the tasks were cancelled, also while they have not noticed it yet."""
        return self._task.cancelling() > 0

    def close(self) -> None:
        self._closed.set()

    async def _wait(self) -> None:
        await self._closed.wait()
