"""Reads a topic for this process only, from a cursor in memory. So it leaves nothing in the store."""

from __future__ import annotations

import asyncio
import time
from math import ceil

import msgspec

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import Retry, Snoozed
from headrace.core.runtime.clock import SECOND
from headrace.core.topics.position import Position, TopicReading
from headrace.core.topics.topic import LogEntry, Start
from headrace.engine.declared.subscription import Subscription
from headrace.engine.running.batches.bundle import bundled
from headrace.engine.running.finished import FinishedRun
from headrace.engine.service import Service

from .group_reader import EventParts
from .queue_reader import ReaderParts
from .subscription_limit import SubscriptionLimit
from .worker_readers import WorkerReader

#: Seconds that one read waits for events.
BLOCK = 2.0


class FanOutReader(WorkerReader):
    """Makes claims that only this process has: they have no token and no lease, and are not settled. Retries
    run in this process, as long as it lives."""

    def __init__(
        self,
        parts: ReaderParts,
        subscription: Subscription,
        topic: str,
        start: Start,
        *,
        consumer: str,
        limit: SubscriptionLimit,
        events: EventParts,
    ) -> None:
        self.consumer = consumer
        self.limit: SubscriptionLimit = limit
        self.topic = Stream("topic", topic)
        self.stream = subscription.stream(topic)
        self.position = Position()
        self._read_all = False  # no event was left after the last read
        self._subscription = subscription
        self._fairness = events.fairness
        self._signals = events.signals
        self._backend = parts.backend
        self._slots = parts.slots
        self._load = subscription.batch or 1
        self._start = start
        self._again: dict[Claim, asyncio.TimerHandle] = {}
        self._stopped = False
        self._service = Service("fan-out", self._step, emitter=parts.emitter)

    @property
    def caught_up(self) -> bool:
        return self._read_all and self.limit.idle

    async def find_place(self) -> None:
        """Find the start position now, so that no event published from now on is missed."""
        reading = await self._backend.read(self.topic, self._start, consumer=self.consumer, limit=1, wait=0.0)
        self.position = reading.after(0)

    def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        self._stopped = True
        for handle in self._again.values():
            handle.cancel()
        self._again.clear()
        self.wake()
        await self._service.stop()

    def wake(self) -> None:
        self._backend.wake(self.consumer)

    def room_made(self) -> None:
        self.due_for_more = False
        self._service.poke()

    def ended(self, finished: list[FinishedRun]) -> list[FinishedRun]:
        for each in finished:
            self._end(each)
        return []

    def retry_now(self) -> None:
        """Run now the retries that wait for their time."""
        for claim, handle in list(self._again.items()):
            handle.cancel()
            self._put_again(claim)

    def _end(self, finished: FinishedRun) -> None:
        self._signals.failed(finished)
        self._signals.ended(finished)
        if isinstance(finished.outcome, Retry | Snoozed) and not self._stopped:
            claim = msgspec.structs.replace(finished.claim, state=finished.outcome.state)
            self._later(finished.outcome.delay_us / SECOND, claim)
        else:
            self.handled += 1
            self.limit.give_back()

    def _later(self, delay: float, claim: Claim) -> None:
        self._again[claim] = asyncio.get_running_loop().call_later(delay, self._put_again, claim)

    def _put_again(self, claim: Claim) -> None:
        self._again.pop(claim, None)
        self._buffer([claim])

    def _room(self) -> int:
        slots = 0 if self._stopped else self._fairness.room(self, self._subscription)
        return min(self.limit.left, slots * self._load)

    async def _step(self) -> float | None:
        room = self._room()
        if room <= 0:
            self.due_for_more = True
            self.polled_at = time.time()  # the reader is alive: it does not ask because every slot is taken
            return 1.0
        wait = 0.0
        if self._read_all:
            room, wait = min(room, self._load), BLOCK
        reading = await self._ask(room, wait)
        self.polled_at = time.time()
        # Another topic of the same pattern may have used up the limit. The rest is read again.
        taken = reading.entries[: max(0, self.limit.left)]
        self._read_all = len(taken) == len(reading.entries) < room
        self.position = reading.after(len(taken))
        self._put(taken, reading.now_us)
        return None

    async def _ask(self, limit: int, wait: float) -> TopicReading:
        self._fairness.promise(self, self._subscription, ceil(limit / self._load))
        try:
            return await self._backend.read(
                self.topic, self.position, consumer=self.consumer, limit=limit, wait=wait
            )
        finally:
            self._fairness.received(self)

    def _put(self, entries: tuple[LogEntry, ...], now_us: int) -> None:
        claims = [
            Claim(self.stream, entry.id, entry.body, None, now_us, expires_us=entry.expires_us)
            for entry in entries
        ]
        self.limit.take(len(claims))
        self._buffer(claims)

    def _buffer(self, claims: list[Claim]) -> None:
        batch = self._subscription.batch
        self._slots.put(bundled(claims, batch) if batch else claims)
