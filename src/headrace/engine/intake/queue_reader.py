"""Claims what the free slots can take, and a little ahead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.engine.emitter import Emitter
from headrace.engine.running.children.pool import ChildPool
from headrace.engine.running.finished import FinishedRun
from headrace.engine.running.slots import Slots
from headrace.engine.service import Service
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.settling.in_flight import InFlight
from headrace.engine.streams import StreamRouter
from headrace.engine.upkeep.leases import Leases

from .worker_readers import WorkerReader

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


class ReaderParts(NamedTuple):
    """What every reader needs of its worker."""

    backend: StreamRouter
    slots: Slots
    held: HeldClaims
    in_flight: InFlight
    leases: Leases
    emitter: Emitter


class QueueReader(WorkerReader):
    """Fills the slots' buffer. Fast handlers never wait for a round trip; slow ones are never hoarded."""

    def __init__(
        self,
        parts: ReaderParts,
        streams: Sequence[Stream],
        *,
        consumer: str,
        processes: ChildPool | None = None,
    ) -> None:
        self.consumer = consumer
        self.streams = streams
        self.childless = False  # a claim is under way that wants no child work
        self._backend = parts.backend
        self._slots = parts.slots
        self._held = parts.held
        self._in_flight = parts.in_flight
        self._leases = parts.leases
        self._processes = processes  # None: no task of this worker needs a child process
        self._asked_at = 0.0
        self._stopped = False
        self._pace = 0.0
        self._measured_at = time.monotonic()
        self._measured = 0
        self._service = Service("fetcher", self._step, emitter=parts.emitter)

    def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        """Claim no more. A claim under way is not cancelled but woken, and what it brings is kept."""
        self._stopped = True
        self.wake()
        await self._service.stop()

    def wake(self) -> None:
        self._backend.wake(self.consumer)

    def room_made(self) -> None:
        if not self.childless:
            self.due_for_more = False
            self._service.poke()
        elif self._free_children() != 0:
            # A claim that wants no work for children need not wait any longer.
            self.due_for_more = self.childless = False
            self.wake()

    def ended(self, finished: list[FinishedRun]) -> list[FinishedRun]:
        return finished

    def written(self, finished: FinishedRun) -> None:
        """Jobs have no limit that would count them."""

    def lost(self) -> None:
        """Jobs have no limit that would count them."""

    async def _step(self) -> float | None:
        ahead = min(AHEAD_MOST, int(self._measured_pace() * AHEAD_SECONDS))
        room, wait = self._plan(ahead)
        if room <= 0:
            self.due_for_more = True
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
        lease = self._leases.shortest
        until_passed = [lease - self._held.age(claim) for claim in self._blocking_suspects()]
        # When a suspect blocks no longer, the next claim asks for another.
        return max(0.0, min(BLOCK, BLOCK_SHARE * lease, *until_passed))

    def _blocking_suspects(self) -> list[Claim]:
        """Those that keep others from being taken. One that has run for a lease does so no longer: what it
        did to its worker before, it would have done by now."""
        return self._held.suspects_within(self._leases.shortest)

    async def _ask(self, limit: int, wait: float) -> list[Claim]:
        suspects = 1 if self._slots.free > 0 and not self._blocking_suspects() else 0
        children = self._free_children()
        self.due_for_more = self.childless = children == 0
        try:
            return await self._backend.claim(
                self.streams,
                consumer=self.consumer,
                limit=limit,
                suspects=suspects,
                children=children,
                wait=wait,
            )
        finally:
            self.due_for_more = self.childless = False

    def _free_children(self) -> int | None:
        """How much child work can be begun now; None: no task of this worker needs a child."""
        if self._processes is None:
            return None
        runs = self._held.running.values()
        coming = sum([run.handler.run_in == "process" and not run.delegated for run in runs])
        coming += sum([claim.child for claim in self._slots.ready])
        return max(0, min(self._processes.free - coming, self._slots.free))

    async def _receive(self, claims: list[Claim]) -> None:
        self._hold(claims)
        self._slots.put(claims)

    def _hold(self, claims: list[Claim]) -> None:
        self._in_flight.take(claims)
        if time.monotonic() - self._asked_at > LATE_SHARE * self._leases.shortest:
            # Whoever has them by now keeps them, and what is still ours is handed out anew.
            surplus = claims[:]
            claims.clear()
            self._in_flight.hand_back(surplus)
        elif self._held.several_suspects and len(self._blocking_suspects()) > 1:
            # Another reader has taken one meanwhile. A worker runs one at a time, so that is one too many.
            surplus = [claim for claim in claims if claim.suspect]
            claims[:] = [claim for claim in claims if not claim.suspect]
            self._in_flight.hand_back(surplus)

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
        return self._stopped or len(self._in_flight.unwritten) >= UNWRITTEN_MOST

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
