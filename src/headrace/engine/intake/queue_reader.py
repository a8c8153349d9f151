"""Claims jobs for the free slots, and some in advance."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.store import NO_CRASH_LIMITS
from headrace.engine.emitter import Emitter
from headrace.engine.running.children.pool import ChildPool
from headrace.engine.running.slots import Slots
from headrace.engine.service import Service
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.settling.in_flight import InFlight
from headrace.engine.streams import StreamRouter
from headrace.engine.upkeep.leases import Leases

from .worker_readers import WorkerReader

#: Seconds that one claim waits for work, and the largest share of a lease that it waits.
BLOCK = 2.0
BLOCK_SHARE = 0.25

#: An answer may take longer than this share of a lease, while this process stands still or is busy. Then its
#: claims may belong to other workers already, or will before they are renewed.
LATE_SHARE = 0.5

#: Jobs to claim in advance: as many as finish within this many seconds, and at most this number.
AHEAD_SECONDS = 0.1
AHEAD_MOST = 1000

#: Jobs with constraints are claimed for free slots only, and jobs that were claimed in advance leave none
#: free. So a reader that may get both claims nothing in advance, once it has not offered a free slot for this
#: many seconds.
OFFER_SECONDS = 0.05

_constraints_of = attrgetter("constraints")

#: The shortest time over which the pace is measured, in seconds.
PACE_WINDOW = 0.02

#: Seconds until a reader without room checks again by itself. Each end of a run makes room and pokes the
#: reader. While slots are crowded, a handler that suspends makes room too, without a poke.
LOOK = 1.0
LOOK_CROWDED = 0.05

#: With more unwritten outcomes than this, nothing more is claimed: the store is too slow.
UNWRITTEN_MOST = 5000


class ReaderParts(NamedTuple):
    """The parts of a worker that every reader needs."""

    backend: StreamRouter
    slots: Slots
    held: HeldClaims
    in_flight: InFlight
    leases: Leases
    emitter: Emitter


class QueueReader(WorkerReader):
    """Fills the slots' buffer. Fast handlers never wait for a round trip; jobs of slow handlers are not
    claimed long in advance."""

    def __init__(
        self,
        parts: ReaderParts,
        streams: Sequence[Stream],
        *,
        consumer: str,
        processes: ChildPool | None = None,
        constrained: bool = False,
        crash_limits: Mapping[Stream, int] = NO_CRASH_LIMITS,
    ) -> None:
        self.consumer = consumer
        self.streams = streams
        self.childless = False  # the current claim takes no jobs for child processes
        self._left_out: Sequence[Stream] = ()  # queues that have no slot left, and are not asked now
        self._backend = parts.backend
        self._slots = parts.slots
        self._held = parts.held
        self._in_flight = parts.in_flight
        self._leases = parts.leases
        self._processes = processes  # None: no task of this worker needs a child process
        self._constrained = constrained  # whether jobs with limits or tenants may come
        self._crash_limits = crash_limits  # of queues whose crashed jobs this worker makes dead letters
        self._offered_at = 0.0  # when a claim last offered a free slot to such jobs, and got none of them
        self._asked_at = 0.0
        self._stopped = False
        self._pace = 0.0
        self._measured_at = time.monotonic()
        self._measured = 0
        self._service = Service("fetcher", self._step, emitter=parts.emitter)

    def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        """Claim no more. The current claim is not cancelled but woken, and its messages are kept."""
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
            # A child is free, so end the claim that takes no jobs for child processes.
            self.due_for_more = self.childless = False
            self.wake()

    async def _step(self) -> float | None:
        ahead = 0 if self._must_offer() else min(AHEAD_MOST, int(self._measured_pace() * AHEAD_SECONDS))
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
                await asyncio.sleep(0)  # the queue was empty: let the job begin before the next claim
        elif wait:
            self._slots.crowded = False  # the queue was empty for a while: later jobs may be of another kind
        if len(claims) < room:
            self._begin_anew()
        return None

    def _plan(self, ahead: int) -> tuple[int, float]:
        """How many messages to claim, and how long to wait for the first of them."""
        # A claim for more than the free slots does not wait: later jobs may be of another kind.
        return self._room(ahead), 0.0 if ahead else self._patience()

    def _patience(self) -> float:
        lease = self._leases.shortest
        until_passed = [lease - self._held.age(claim) for claim in self._blocking_suspects()]
        # When a suspect stops blocking, the next claim can take another suspect.
        return max(0.0, min(BLOCK, BLOCK_SHARE * lease, *until_passed))

    def _blocking_suspects(self) -> list[Claim]:
        """The suspects that block other suspects. After one lease a suspect stops blocking: by then it would
        have crashed this worker."""
        return self._held.suspects_within(self._leases.shortest)

    def _ask(self, limit: int, wait: float) -> Coroutine[Any, Any, list[Claim]]:
        return self._claim_from(self.streams, limit, wait)

    async def _claim_from(
        self, streams: Sequence[Stream], limit: int, wait: float, before: Sequence[Claim] = ()
    ) -> list[Claim]:
        """`before`: what other claims of this step have brought."""
        free = self._slots.free
        suspects = 1 if free > 0 and not self._blocking_suspects() else 0
        children = self._free_children()
        if before:
            free = max(0, free - len(before))
            suspects = 0 if any([claim.suspect for claim in before]) else suspects
            children = children and max(0, children - sum([claim.child for claim in before]))
        self.childless = children == 0
        self.due_for_more = self.childless or bool(self._left_out)
        try:
            claims = await self._backend.claim(
                streams,
                consumer=self.consumer,
                limit=limit,
                suspects=suspects,
                children=children,
                constrained=free,
                wait=wait,
            )
            self._note_constrained(claims, free)
            return claims
        finally:
            self.due_for_more = self.childless = False

    def _must_offer(self) -> bool:
        return self._constrained and time.monotonic() > self._offered_at + OFFER_SECONDS

    def _note_constrained(self, claims: list[Claim], free: int) -> None:
        """Note whether jobs with constraints wait. Other programs may send them to tasks that declare
        none."""
        if free and any(map(_constraints_of, claims)):
            self._constrained, self._offered_at = True, 0.0
        elif free and self._constrained:
            self._offered_at = time.monotonic()

    def _free_children(self) -> int | None:
        """How many jobs for child processes can begin now; None: no task of this worker needs a child."""
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
        if self._crash_limits:
            self._bury_crashed(claims)
        if time.monotonic() - self._asked_at > LATE_SHARE * self._leases.shortest:
            # Other workers may hold these claims by now, and keep them. The rest is handed back.
            surplus = claims[:]
            claims.clear()
            self._in_flight.hand_back(surplus)
        elif self._held.several_suspects and len(self._blocking_suspects()) > 1:
            # Another reader has taken a suspect too. A worker runs one at a time, so hand this one back.
            surplus = [claim for claim in claims if claim.suspect]
            claims[:] = [claim for claim in claims if not claim.suspect]
            self._in_flight.hand_back(surplus)

    def _bury_crashed(self, claims: list[Claim]) -> None:
        limits = self._crash_limits
        crashed = [each for each in claims if each.state.crashes >= limits.get(each.whole, inf)]
        if crashed:
            claims[:] = [claim for claim in claims if claim not in crashed]
            self._in_flight.bury(crashed)

    def _finished(self) -> int:
        """How many runs have ended so far. The pace is calculated from it."""
        return self._slots.finished

    def _room(self, ahead: int) -> int:
        if self._must_not_ask():
            return 0
        # Below zero: this many slots stay free after all buffered claims have begun.
        waiting = self._slots.waiting
        if self._slots.crowded:
            # Handlers that never suspend run one after the other, however many slots are free. Claims for
            # those slots would be handed back repeatedly: three times for each job of 20 ms.
            waiting = max(waiting, len(self._slots.ready) - 1)
        # Refill when half is used up: a claim after each job would cost a round trip for each.
        return ahead - waiting if waiting <= ahead // 2 else 0

    def _note_full(self) -> None:
        """Count this as a poll when every slot is taken: the reader is alive. Do not count it while the store
        is too slow to write outcomes."""
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
        """Measure the pace again. The backlog is used up, and later jobs may be of another kind."""
        self._pace = 0.0
        self._measured_at, self._measured = time.monotonic(), self._finished()
