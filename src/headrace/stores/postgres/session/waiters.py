"""Keeps the waiting callers of this process, and wakes them. All of it runs on the event loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import Final

from headrace.core.messages.message import Stream
from headrace.core.records.control import ControlMessage
from headrace.stores.sql.waiters import EventWaiter, EventWaiters, topics_of
from headrace.stores.sql.wake_ups import WakeUps

#: Seconds after which a waiting caller looks again: while notifications arrive (one may have been lost with
#: the process that should send it), and while they do not.
LISTENING: Final = 5.0
POLLING: Final = 0.5

#: Seconds for which a waiter is kept after its caller has left.
KEPT: Final = 60.0


class CallerWaiter(EventWaiter):
    """Also knows when its caller last looked, and whether it has left."""

    def __init__(self, streams: frozenset[Stream] = frozenset(), consumer: str = "") -> None:
        super().__init__(streams, consumer)
        self.looked_at = 0.0  # when the caller last found nothing
        self.left_at = 0.0
        self.in_use = False

    def knows_nothing_new(self, interval: float) -> bool:
        """Whether the caller found nothing a short time ago, and nothing was announced since then."""
        return not self._event.is_set() and monotonic() < self.looked_at + interval


def streams_and_topics(streams: Sequence[Stream]) -> frozenset[Stream]:
    """The streams, and the topics from whose logs the groups among them draw."""
    return frozenset(streams) | topics_of(streams)


class WaitingCallers(EventWaiters[CallerWaiter, CallerWaiter]):
    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[Hashable, CallerWaiter] = {}
        self._listeners: list[Callable[[ControlMessage], None]] = []
        self.interval = POLLING

    @contextmanager
    def claiming(self, streams: frozenset[Stream], consumer: str) -> Iterator[CallerWaiter]:
        waiter = CallerWaiter(streams, consumer)
        with self._claim_waits(waiter):
            yield waiter

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

    def ending(self, stream: Stream, id: str) -> AbstractContextManager[CallerWaiter]:
        return self._end_awaited(stream, id, CallerWaiter())

    def listen(self, hear: Callable[[ControlMessage], None]) -> Callable[[], None]:
        def listener(notice: ControlMessage) -> None:
            hear(notice)

        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def notify(self, wake_ups: WakeUps) -> None:
        self._wake(wake_ups.ready, wake_ups.ended)

    def announce(self, notice: ControlMessage) -> None:
        for listener in tuple(self._listeners):
            listener(notice)
