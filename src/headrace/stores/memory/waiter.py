"""Wakes a waiting coroutine, also from the event loop of another thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Generic, TypeVar

from headrace.core.records.record import Record

T = TypeVar("T")


class Waiter(Generic[T]):
    """Any thread wakes it once with an answer. One coroutine on the loop that created it waits for this."""

    __slots__ = ("_future", "_loop", "_thread")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._future: asyncio.Future[T] = self._loop.create_future()

    def wake(self, answer: T | Exception) -> None:
        """Give the answer to the waiting coroutine, or raise it there. Runs no code of that coroutine, so the
        caller may hold a lock."""
        if threading.get_ident() == self._thread:
            self._answer(answer)
            return
        try:
            self._loop.call_soon_threadsafe(self._answer, answer)
        except RuntimeError:
            pass  # That loop is closed: no coroutine waits any more.

    async def heard(self, timeout: float | None, *, otherwise: T) -> T:
        """The answer, or `otherwise` after `timeout` seconds."""
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


class Watchers(dict[str, list[Waiter[Record | None]]]):
    """The callers that wait for the end of a message, by its id. They get the record when it is over."""

    def add(self, id: str) -> Waiter[Record | None]:
        waiter: Waiter[Record | None] = Waiter()
        self.setdefault(id, []).append(waiter)
        return waiter

    def remove(self, id: str, waiter: Waiter[Record | None]) -> None:
        waiters = self.get(id, [])
        if waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                del self[id]
