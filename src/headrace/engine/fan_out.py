"""Reads a topic for this process alone: from a cursor of its own, so that nothing is left behind by it."""

from __future__ import annotations

import time
from math import ceil

from headrace.core.claim import Claim
from headrace.core.message import Stream
from headrace.core.position import Position, TopicReading
from headrace.core.topics import LogEntry, Start

from .bundle import bundled
from .emitter import Emitter
from .permits import Permits
from .service import Service
from .shares import Shares
from .slots import Slots
from .streams import StreamRouter
from .subscription import Subscription

#: Seconds that a read waits for events before it asks again.
BLOCK = 2.0


class FanOut:
    """Its claims are held by nobody else: they have no token, no lease, and are not settled."""

    def __init__(
        self,
        subscription: Subscription,
        topic: str,
        start: Start,
        *,
        backend: StreamRouter,
        permits: Permits,
        shares: Shares,
        consumer: str,
        slots: Slots,
        emitter: Emitter,
    ) -> None:
        self.hungry = False
        self.polled_at = 0.0
        self.permits = permits
        self.consumer = consumer
        self.caught_up = False  # nothing was left behind the last that was read
        self._subscription = subscription
        self._shares = shares
        self._backend = backend
        self._load = subscription.batch or 1
        self.topic = Stream("topic", topic)
        self._stream = subscription.stream(topic)
        self._start = start
        self.position = Position()
        self._slots = slots
        self._stopped = False
        self._service = Service("fan-out", self._step, emitter=emitter)
        self.start = self._service.start

    async def find_place(self) -> None:
        """Find the place to begin at now, so that nothing published from now on is missed."""
        reading = await self._backend.read(self.topic, self._start, consumer=self.consumer, limit=1, wait=0.0)
        self.position = reading.after(0)

    async def stop(self) -> None:
        self._stopped = True
        self._backend.wake(self.consumer)
        await self._service.stop()

    def room_made(self) -> None:
        self.hungry = False
        self._service.poke()

    def _room(self) -> int:
        slots = 0 if self._stopped else self._shares.room(self, self._subscription)
        return min(self.permits.left, slots * self._load)

    async def _step(self) -> float | None:
        room = self._room()
        if room <= 0:
            self.hungry = True
            self.polled_at = time.time()  # with every slot taken, not asking is a sign of life too
            return 1.0
        wait = 0.0
        if self.caught_up:
            room, wait = min(room, self._load), BLOCK
        reading = await self._ask(room, wait)
        self.polled_at = time.time()
        # Another topic of the same pattern may have used the permits up meanwhile; the rest is read again.
        taken = reading.entries[: max(0, self.permits.left)]
        self.caught_up = len(taken) == len(reading.entries) < room
        self.position = reading.after(len(taken))
        self._put(taken, reading.now_us)
        return None

    async def _ask(self, limit: int, wait: float) -> TopicReading:
        self._shares.promise(self, self._subscription, ceil(limit / self._load))
        try:
            return await self._backend.read(
                self.topic, self.position, consumer=self.consumer, limit=limit, wait=wait
            )
        finally:
            self._shares.received(self)

    def _put(self, entries: tuple[LogEntry, ...], now_us: int) -> None:
        claims = [
            Claim(self._stream, entry.id, entry.body, None, now_us, expires_us=entry.expires_us)
            for entry in entries
        ]
        self.permits.take(len(claims))
        batch = self._subscription.batch
        self._slots.put(bundled(claims, batch) if batch else claims)
