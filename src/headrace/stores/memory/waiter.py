"""How a waiting coroutine is woken, also from the event loop of another thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Waiter(Generic[T]):
    """Rung once with an answer, from any thread; heard by one coroutine of the loop that made it."""

    __slots__ = ("_future", "_loop", "_thread")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._future: asyncio.Future[T] = self._loop.create_future()

    def ring(self, answer: T | Exception) -> None:
        """Answer whoever waits, or raise there. Runs nothing itself, so a lock may be held."""
        if threading.get_ident() == self._thread:
            self._answer(answer)
            return
        try:
            self._loop.call_soon_threadsafe(self._answer, answer)
        except RuntimeError:
            pass  # That loop is closed: nobody waits any more.

    async def heard(self, timeout: float | None, *, otherwise: T) -> T:
        """What it was rung with, or `otherwise` after `timeout` seconds."""
        if timeout is None:
            return await self._future
        timer = self._loop.call_later(timeout, self._answer, otherwise)
        try:
            return await self._future
        finally:
            timer.cancel()

    def _answer(self, answer: T | Exception) -> None:
        if self._future.done():
            return
        if isinstance(answer, Exception):
            self._future.set_exception(answer)
        else:
            self._future.set_result(answer)
