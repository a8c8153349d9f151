"""Keeps the waiting callers of a process, and wakes them. All of it runs on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from headrace.core.messages.message import Stream


class EventWaiter:
    """Wakes the caller that waits, or the next one that waits. `woken_by` and `consumer` say what wakes a
    claim. A caller that waits for the end of a message has none of these."""

    def __init__(self, woken_by: frozenset[Stream] = frozenset(), consumer: str = "") -> None:
        self.woken_by = woken_by
        self.consumer = consumer
        self._event = asyncio.Event()
        self.wake = self._event.set
        self.reset = self._event.clear

    async def wait(self, timeout: float | None) -> bool:
        """False when it was not woken within `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


#: The waiters of claims and readers, and those of callers that wait for the end of a message.
C = TypeVar("C", bound=EventWaiter)
E = TypeVar("E", bound=EventWaiter)


def topics_of(streams: Sequence[Stream]) -> frozenset[Stream]:
    """The topics from whose logs the groups among these streams draw."""
    return frozenset(Stream("topic", stream.topic) for stream in streams if stream.kind == "group")


class EventWaiters(Generic[C, E]):
    def __init__(self) -> None:
        self._claims: set[C] = set()
        self._endings: dict[tuple[Stream, str], set[E]] = {}

    @contextmanager
    def _claim_waits(self, waiter: C) -> Iterator[None]:
        self._claims.add(waiter)
        try:
            yield
        finally:
            self._claims.discard(waiter)

    @contextmanager
    def _end_awaited(self, stream: Stream, id: str, waiter: E) -> Iterator[E]:
        waiters = self._endings.setdefault((stream, id), set())
        waiters.add(waiter)
        try:
            yield waiter
        finally:
            waiters.discard(waiter)
            if not waiters:
                self._endings.pop((stream, id), None)

    def wake(self, consumer: str) -> None:
        for waiter in self._claims:
            if waiter.consumer == consumer:
                waiter.wake()

    def wake_all(self) -> None:
        for waiter in (*self._claims, *(waiter for waiters in self._endings.values() for waiter in waiters)):
            waiter.wake()

    def _wake(self, ready: Collection[Stream], ended: Iterable[tuple[Stream, str]]) -> None:
        """Wake the claims on streams that may have something, and those who wait for messages that ended."""
        if ready:
            for waiter in self._claims:
                if not waiter.woken_by.isdisjoint(ready):
                    waiter.wake()
        for message in ended:
            for ending in self._endings.get(message, ()):
                ending.wake()
