"""Claims what the free slots can take, and a little ahead."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headrace.core.backend import Backend
from headrace.core.claim import Claim
from headrace.core.message import Source

from .emitter import Emitter
from .holdings import Holdings
from .service import Service
from .slots import Slots

#: Seconds that a claim waits for work before it asks again.
BLOCK = 2.0

#: How far ahead of the slots to claim: as many as will be finished within this time, and at most so many.
AHEAD_SECONDS = 0.1
AHEAD_MOST = 1000

#: Seconds over which the pace is measured, at least.
PACE_WINDOW = 0.02

#: Outcomes not yet written above which nothing more is claimed: the store does not keep up.
UNWRITTEN_MOST = 5000


class Fetcher:
    """Fills the slots' buffer. Fast handlers never wait for a round trip; slow ones are never hoarded."""

    def __init__(
        self,
        backend: Backend,
        sources: Sequence[Source],
        *,
        consumer: str,
        slots: Slots,
        holdings: Holdings,
        unwritten: Callable[[], int],
        emitter: Emitter,
    ) -> None:
        self.polled_at = 0.0
        self.hungry = False
        self._backend = backend
        self._sources = sources
        self._consumer = consumer
        self._slots = slots
        self._holdings = holdings
        self._unwritten = unwritten
        self._stopped = False
        self._pace = 0.0
        self._measured_at = time.monotonic()
        self._measured = 0
        self._service = Service("fetcher", self._step, emitter=emitter)
        self.start = self._service.start

    async def stop(self) -> None:
        """Claim no more. A claim under way is not cancelled but woken, and what it brings is kept."""
        self._stopped = True
        self._backend.wake(self._consumer)
        await self._service.stop()

    def room_made(self) -> None:
        """Something ended, so there may be room again."""
        self.hungry = False
        self._service.poke()

    def suspect_ended(self) -> None:
        """The next suspect may be taken now, although a claim without one may be waiting."""
        self._backend.wake(self._consumer)

    async def _step(self) -> float | None:
        ahead = min(AHEAD_MOST, int(self._measured_pace() * AHEAD_SECONDS))
        room = self._room(ahead)
        if room <= 0:
            self.hungry = True
            return 1.0
        # Whoever asks for more than the free slots does not wait: what comes later may be of another kind.
        wait = 0.0 if ahead else BLOCK
        suspects = 1 if self._slots.free > 0 and self._holdings.suspects == 0 else 0
        claims = await self._backend.claim(
            self._sources, consumer=self._consumer, limit=room, suspects=suspects, wait=wait
        )
        self.polled_at = time.time()
        self._receive(claims)
        if len(claims) < room:
            self._begin_anew()
        return None

    def _receive(self, claims: list[Claim]) -> None:
        if claims:
            self._holdings.take(claims)
            self._slots.put(claims)

    def _room(self, ahead: int) -> int:
        if self._stopped or self._unwritten() >= UNWRITTEN_MOST:
            return 0
        # Below zero: so many slots are free, also when what is buffered has been taken by the others.
        waiting = self._slots.waiting
        # Refill when half is used up: a claim for each job that ends would be a round trip for each.
        return ahead - waiting if waiting <= ahead // 2 else 0

    def _measured_pace(self) -> float:
        now = time.monotonic()
        elapsed = now - self._measured_at
        if elapsed >= PACE_WINDOW:
            rate = (self._slots.finished - self._measured) / elapsed
            self._pace = (self._pace + rate) / 2
            self._measured_at, self._measured = now, self._slots.finished
        return self._pace

    def _begin_anew(self) -> None:
        """The backlog is used up. What comes next may be of another kind: its pace is not known yet."""
        self._pace = 0.0
        self._measured_at, self._measured = time.monotonic(), self._slots.finished
