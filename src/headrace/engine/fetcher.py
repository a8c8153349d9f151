"""Claims what the free slots can take, and a little ahead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Required, TypedDict

from headrace.core.backend import Backend
from headrace.core.claim import Claim
from headrace.core.message import Source

from .emitter import Emitter
from .holdings import Holdings
from .service import Service
from .slots import Slots

#: Seconds that a claim waits for work before it asks again, and at most this share of a lease.
BLOCK = 2.0
BLOCK_SHARE = 0.25

#: An answer that took longer than this share of a lease lay here while this process stood still or was busy:
#: what it brought may belong to others by now, or will before it is renewed.
LATE_SHARE = 0.5

#: How far ahead of the slots to claim: as many as will be finished within this time, and at most so many.
AHEAD_SECONDS = 0.1
AHEAD_MOST = 1000

#: Seconds over which the pace is measured, at least.
PACE_WINDOW = 0.02

#: Seconds until a reader that has no room looks again by itself. Whatever ends makes room, and pokes it; but
#: where slots seemed to be crowded, a handler that suspends does as well.
LOOK = 1.0
LOOK_CROWDED = 0.05

#: Outcomes not yet written above which nothing more is claimed: the store does not keep up.
UNWRITTEN_MOST = 5000


class FetcherOptions(TypedDict, total=False):
    """What every fetcher takes, by the names of the parameters below."""

    backend: Required[Backend]
    sources: Required[Sequence[Source]]
    consumer: Required[str]
    slots: Required[Slots]
    holdings: Required[Holdings]
    unwritten: Required[Callable[[], int]]
    emitter: Required[Emitter]
    too_many: Callable[[list[Claim]], None]
    lease: Callable[[], float]
    children: Callable[[], int | None]


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
        too_many: Callable[[list[Claim]], None] = lambda surplus: None,
        lease: Callable[[], float] = lambda: inf,
        children: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._too_many = too_many
        self.polled_at = 0.0  # when the store last answered, or was not asked because every slot is taken
        self.hungry = False
        self.childless = False  # a claim is under way that wants no child work
        self._children = children
        self._backend = backend
        self.sources = sources
        self.consumer = consumer
        self._slots = slots
        self._holdings = holdings
        self._unwritten = unwritten
        self._lease = lease
        self._asked_at = 0.0
        self._stopped = False
        self._pace = 0.0
        self._measured_at = time.monotonic()
        self._measured = 0
        self._service = Service("fetcher", self._step, emitter=emitter)
        self.start = self._service.start

    async def stop(self) -> None:
        """Claim no more. A claim under way is not cancelled but woken, and what it brings is kept."""
        self._stopped = True
        self._backend.wake(self.consumer)
        await self._service.stop()

    def room_made(self) -> None:
        """Something ended, so there may be room again."""
        self.hungry = False
        self._service.poke()

    def child_freed(self) -> None:
        """There may be a free child: a claim that wants no work for it need not wait any longer."""
        if self.childless and self._children() != 0:
            self.childless = False
            self._backend.wake(self.consumer)

    async def _step(self) -> float | None:
        ahead = min(AHEAD_MOST, int(self._measured_pace() * AHEAD_SECONDS))
        room, wait = self._plan(ahead)
        if room <= 0:
            self.hungry = True
            self._note_full()
            return LOOK_CROWDED if self._slots.crowded else LOOK
        self._asked_at = time.monotonic()
        claims = await self._ask(room, wait)
        self.polled_at = time.time()
        if claims:
            await self._receive(claims)
            if wait:
                await asyncio.sleep(0)  # nothing else came: let it begin before the store is asked again
        elif wait:
            self._slots.crowded = False  # nothing came for a while: what comes next may be of another kind
        if len(claims) < room:
            self._begin_anew()
        return None

    def _plan(self, ahead: int) -> tuple[int, float]:
        """How many to ask for, and how long to wait for the first of them."""
        # Whoever asks for more than the free slots does not wait: what comes later may be of another kind.
        return self._room(ahead), 0.0 if ahead else self._patience()

    def _patience(self) -> float:
        lease = self._lease()
        until_passed = [lease - self._holdings.age(claim) for claim in self._blocking_suspects()]
        # When a suspect blocks no longer, the next claim asks for another.
        return max(0.0, min(BLOCK, BLOCK_SHARE * lease, *until_passed))

    def _blocking_suspects(self) -> list[Claim]:
        """Those that keep others from being taken. One that has run for a lease does so no longer: what it
        did to its worker before, it would have done by now."""
        return self._holdings.suspects_within(self._lease())

    async def _ask(self, limit: int, wait: float) -> list[Claim]:
        suspects = 1 if self._slots.free > 0 and not self._blocking_suspects() else 0
        children = self._children()
        self.childless = children == 0
        try:
            return await self._backend.claim(
                self.sources,
                consumer=self.consumer,
                limit=limit,
                suspects=suspects,
                children=children,
                wait=wait,
            )
        finally:
            self.childless = False

    async def _receive(self, claims: list[Claim]) -> None:
        self._hold(claims)
        self._slots.put(claims)

    def _hold(self, claims: list[Claim]) -> None:
        self._holdings.take(claims)
        if time.monotonic() - self._asked_at > LATE_SHARE * self._lease():
            # Whoever has them by now keeps them, and what is still ours is handed out anew.
            surplus = claims[:]
            claims.clear()
            self._too_many(surplus)
        elif self._holdings.several_suspects and len(self._blocking_suspects()) > 1:
            # Another fetcher has taken one meanwhile. A worker runs one at a time, so that is one too many.
            surplus = [claim for claim in claims if claim.suspect]
            claims[:] = [claim for claim in claims if not claim.suspect]
            self._too_many(surplus)

    def _finished(self) -> int:
        """How many have ended so far, from which the pace is told."""
        return self._slots.finished

    def _room(self, ahead: int) -> int:
        if self._must_not_ask():
            return 0
        # Below zero: so many slots are free, also when what is buffered has been taken by the others.
        waiting = self._slots.waiting
        if self._slots.crowded:
            # Handlers that never suspend are run one after the other, however many slots are free. What is
            # claimed for those would be handed back again and again: three times for each job of 20 ms.
            waiting = max(waiting, len(self._slots.ready) - 1)
        # Refill when half is used up: a claim for each job that ends would be a round trip for each.
        return ahead - waiting if waiting <= ahead // 2 else 0

    def _note_full(self) -> None:
        """Where every slot is taken, not asking is as good a sign of life as asking; but not where the store
        does not take what has ended."""
        if not self._must_not_ask():
            self.polled_at = time.time()

    def _must_not_ask(self) -> bool:
        return self._stopped or self._unwritten() >= UNWRITTEN_MOST

    def _measured_pace(self) -> float:
        now = time.monotonic()
        elapsed = now - self._measured_at
        if elapsed >= PACE_WINDOW:
            finished = self._finished()
            rate = (finished - self._measured) / elapsed
            self._pace = (self._pace + rate) / 2
            self._measured_at, self._measured = now, finished
        return self._pace

    def _begin_anew(self) -> None:
        """The backlog is used up. What comes next may be of another kind: its pace is not known yet."""
        self._pace = 0.0
        self._measured_at, self._measured = time.monotonic(), self._finished()
