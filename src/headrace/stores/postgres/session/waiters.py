"""Keeps the waiting callers of this process, and wakes them. All of it runs on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Final

from headrace.core.messages.message import Stream
from headrace.core.records.control import ControlMessage
from headrace.stores.sql.wake_ups import WakeUps

#: Seconds after which a waiting caller looks again: while notifications arrive (one may have been lost with
#: the process that should send it), and while they do not.
LISTENING: Final = 5.0
POLLING: Final = 0.5

#: Seconds for which a waiter is kept after its caller has left.
KEPT: Final = 60.0


class CallerWaiter:
    """Wakes the caller that waits, or the next one that waits."""

    def __init__(self, streams: frozenset[Stream] = frozenset(), consumer: str = "") -> None:
        self.streams = streams
        self.consumer = consumer
        self.looked_at = 0.0  # when the caller last found nothing
        self.left_at = 0.0
        self.in_use = False
        self._event = asyncio.Event()
        self.wake = self._event.set
        self.reset = self._event.clear

    def knows_nothing_new(self, interval: float) -> bool:
        """Whether the caller found nothing a short time ago, and nothing was announced since then."""
        return not self._event.is_set() and monotonic() < self.looked_at + interval

    async def heard(self, timeout: float) -> bool:
        """Wait until it is woken, `timeout` seconds at most; False: it was not woken."""
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


def streams_and_topics(streams: Sequence[Stream]) -> frozenset[Stream]:
    """The streams, and the topics from whose logs the groups among them draw."""
    topics = {Stream("topic", stream.topic) for stream in streams if stream.kind == "group"}
    return frozenset(streams) | topics


class WaitingCallers:
    def __init__(self) -> None:
        self._claims: set[CallerWaiter] = set()
        self._kept: dict[Hashable, CallerWaiter] = {}
        self._endings: dict[tuple[Stream, str], set[CallerWaiter]] = {}
        self._listeners: list[Callable[[ControlMessage], None]] = []
        self.interval = POLLING

    @contextmanager
    def claiming(self, streams: frozenset[Stream], consumer: str) -> Iterator[CallerWaiter]:
        waiter = CallerWaiter(streams, consumer)
        self._claims.add(waiter)
        try:
            yield waiter
        finally:
            self._claims.discard(waiter)

    @contextmanager
    def claiming_again(
        self, streams: frozenset[Stream], consumer: str, *how: Hashable
    ) -> Iterator[CallerWaiter]:
        """The waiter of the last claim of this kind. It has heard what was announced between the two."""
        self._forget_kept()
        key = (streams, consumer, *how)
        waiter = self._kept.get(key)
        if waiter is None or waiter.in_use:
            waiter = self._kept[key] = CallerWaiter(streams, consumer)
            self._claims.add(waiter)
        waiter.in_use = True
        try:
            yield waiter
        finally:
            waiter.in_use = False
            waiter.left_at = monotonic()
            if self._kept.get(key) is not waiter:
                self._claims.discard(waiter)

    def _forget_kept(self) -> None:
        now = monotonic()
        for key, waiter in list(self._kept.items()):
            if not waiter.in_use and waiter.left_at + KEPT < now:
                del self._kept[key]
                self._claims.discard(waiter)

    @contextmanager
    def ending(self, stream: Stream, id: str) -> Iterator[CallerWaiter]:
        waiter = CallerWaiter()
        waiters = self._endings.setdefault((stream, id), set())
        waiters.add(waiter)
        try:
            yield waiter
        finally:
            waiters.discard(waiter)
            if not waiters:
                self._endings.pop((stream, id), None)

    def listen(self, hear: Callable[[ControlMessage], None]) -> Callable[[], None]:
        def listener(notice: ControlMessage) -> None:
            hear(notice)

        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def wake(self, consumer: str) -> None:
        for waiter in self._claims:
            if waiter.consumer == consumer:
                waiter.wake()

    def wake_all(self) -> None:
        for waiter in (*self._claims, *(waiter for waiters in self._endings.values() for waiter in waiters)):
            waiter.wake()

    def notify(self, wake_ups: WakeUps) -> None:
        if wake_ups.ready:
            for waiter in self._claims:
                if not wake_ups.ready.isdisjoint(waiter.streams):
                    waiter.wake()
        for message in wake_ups.ended:
            for ending in self._endings.get(message, ()):
                ending.wake()

    def announce(self, notice: ControlMessage) -> None:
        for listener in tuple(self._listeners):
            listener(notice)
