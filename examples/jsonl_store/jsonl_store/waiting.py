"""How coroutines wait for what other processes write: the size of the journal is looked at now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

#: Seconds between two looks, while anyone waits.
LOOK_EVERY: Final = 0.01


class Changes:
    """`look` is called on the event loop while a coroutine waits or listens. It wakes them when it finds
    something."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._waiting: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.listeners = 0

    async def next(self, timeout: float | None) -> None:
        """Wait for the next ring, or as long as this."""
        loop = asyncio.get_running_loop()
        bell: asyncio.Future[None] = loop.create_future()
        self._waiting.add(bell)
        self.watch()
        try:
            await asyncio.wait([bell], timeout=timeout)
        finally:
            self._waiting.discard(bell)

    def ring(self) -> None:
        """Wake all who wait. May be called from another loop, when theirs is gone."""
        for bell in self._waiting:
            try:
                bell.get_loop().call_soon_threadsafe(_set, bell)
            except RuntimeError:
                pass  # that loop is closed

    def watch(self) -> None:
        if self._timer is None and (self._waiting or self.listeners):
            self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY, self._looked)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _looked(self) -> None:
        self._timer = None
        self._look()
        self.watch()


def _set(bell: asyncio.Future[None]) -> None:
    if not bell.done():
        bell.set_result(None)
