"""A store on a test stand: opened, with a clock that a test can move, and short ways to say common things."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.constraints import Constraints
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import (
    FRESH,
    NORMAL,
    Batch,
    Message,
    State,
    Stream,
    TrailEntry,
    UniqueKey,
    group_stream,
)
from headrace.core.messages.outcome import (
    Dead,
    DeadReason,
    Done,
    Failure,
    Kept,
    Outcome,
    Retry,
    Settlement,
    Verdict,
)
from headrace.core.records.answers import Answer, Promoted, Recovery, Renewal
from headrace.core.records.record import Counts, JobStatus, Record, WorkerInfo
from headrace.core.runtime.clock import MovableClock, microseconds
from headrace.core.store import NO_CRASH_LIMITS, PartitionedStore
from headrace.core.topics.topic import BEGINNING
from headrace.engine.streams import StreamRouter
from headrace.testing.contract.under_test import StoreUnderTest
from headrace.testing.waiting import wait_until

#: Seconds. Everything that a test does in between takes far less.
LEASE: Final = 30.0

#: Microseconds for which an end record is kept where a test does not care.
HOUR_US: Final = microseconds(3600)

#: What goes wrong in tests.
FAILURE: Final = Failure("ValueError", "no such row", "Traceback: …")


#: What most tests claim from.
WORK: Final = Stream("queue", "work")

#: The topic of the test stand.
ORDERS: Final = Stream("topic", "orders")

#: For a test that holds for a queue and for a group alike.
queue_and_group = pytest.mark.parametrize("kind", ["queue", "group"])


class Stand:
    """One store of the contract suite. `backend` is the worker at hand, `other()` another process.

    Messages are claimed from `stream`, and `inlet` takes them: the same queue, or a group and its topic.
    """

    def __init__(
        self, under_test: StoreUnderTest, clock: MovableClock | None = None, *, kind: str = "queue"
    ) -> None:
        self.stream = self.source = WORK if kind == "queue" else group_stream(ORDERS.name, "billing")
        self.inlet = WORK if kind == "queue" else ORDERS
        self.under_test = under_test
        self.parts = under_test.parts
        self.clock = clock or MovableClock()
        self._namespace = new_id()  # stores may share a server
        self.backend = self.another()
        self._opened: list[StreamRouter] = []
        self._numbers = count(1)

    @property
    def inner(self) -> PartitionedStore:
        """The store itself, without the router."""
        return inner_of(self.backend)

    async def open(self) -> None:
        await self._open(self.backend)
        if self.parts > 1:
            await self.backend.split(WORK, self.parts)
            await self.backend.split(ORDERS, self.parts)
        if self.stream.kind == "group":
            await self.backend.join(self.stream, BEGINNING)
        await self.backend.declare_stream(self.stream, microseconds(LEASE))

    async def close(self) -> None:
        for backend in self._opened:
            await backend.close()

    async def other(self) -> StreamRouter:
        """A second backend on the same store, as another process would have it."""
        return await self._open(self.another())

    def another(self, namespace: str | None = None) -> StreamRouter:
        """A second backend on this store that is not opened yet. With another namespace it is another
        store."""
        return StreamRouter(self.under_test.create(namespace or self._namespace, self.clock))

    async def _open(self, backend: StreamRouter) -> StreamRouter:
        self._opened.append(backend)
        await backend.open()
        return backend

    async def split(self, parts: int) -> None:
        """Split the queue. The test is skipped where the store has no parts."""
        inner_of(self.backend)
        await self.backend.split(self.stream, parts)

    async def queue(self, name: str) -> Stream:
        """One more queue, ready to be claimed from."""
        source = Stream("queue", name)
        await self.backend.declare_stream(source, microseconds(LEASE))
        return source

    # --- time --------------------------------------------------------------------------------------------

    async def advance(self, seconds: float) -> None:
        """Move the store's clock."""
        self.clock.advance(seconds)
        await self.under_test.age_leases(self.backend.store, seconds)

    async def pass_a_millisecond(self) -> None:
        """Servers tell no two moments apart that are closer."""
        later_us = self.now_us() + 2000
        await wait_until(lambda: self.now_us() > later_us)

    async def step(self, seconds: float) -> None:
        """Set the store's clock, as an operator may. After a step forward, leases on a server seem older."""
        self.clock.step(seconds)
        if seconds > 0:
            await self.under_test.age_leases(self.backend.store, seconds)

    def now_us(self) -> int:
        return self.clock.now_us()

    # --- in ----------------------------------------------------------------------------------------------

    def message(
        self,
        id: str | None = None,
        *,
        task: str = "greet",
        body: bytes = b"hello",
        priority: int = NORMAL,
        delay: float = 0,
        due_us: int = 0,
        lifetime: float = 0,
        unique: UniqueKey | None = None,
        child: bool = False,
        key: str = "",
        constraints: Constraints | None = None,
    ) -> Message:
        return Message(
            id or new_id(),
            task,
            body,
            priority,
            delay_us=microseconds(delay),
            due_us=due_us,
            lifetime_us=microseconds(lifetime),
            unique=unique,
            child=child,
            key=key,
            constraints=constraints,
        )

    def batch(
        self,
        *messages: Message,
        source: Stream | None = None,
        producer: str = "producer",
        number: int | None = None,
        limit: int | None = None,
    ) -> Batch:
        number = next(self._numbers) if number is None else number
        return Batch(source or self.inlet, producer, number, list(messages), limit)

    async def append(
        self, *messages: Message, source: Stream | None = None, limit: int | None = None
    ) -> list[Answer]:
        return await self.backend.append(self.batch(*messages, source=source, limit=limit))

    async def add(
        self,
        id: str | None = None,
        *,
        source: Stream | None = None,
        task: str = "greet",
        body: bytes = b"hello",
        priority: int = NORMAL,
        delay: float = 0,
        lifetime: float = 0,
        unique: UniqueKey | None = None,
        child: bool = False,
        key: str = "",
        constraints: Constraints | None = None,
    ) -> str:
        """Append one message that is accepted, and give its id."""
        message = self.message(
            id,
            task=task,
            body=body,
            priority=priority,
            delay=delay,
            lifetime=lifetime,
            unique=unique,
            child=child,
            key=key,
            constraints=constraints,
        )
        assert await self.append(message, source=source) == [Answer(message.id)]
        return message.id

    # --- out and back ------------------------------------------------------------------------------------

    async def claim(
        self,
        limit: int = 100,
        *,
        sources: Sequence[Stream] = (),
        consumer: str = "worker-1",
        suspects: int = 100,
        children: int | None = None,
        constrained: int | None = None,
        wait: float = 0,
        by: StreamRouter | PartitionedStore | None = None,
    ) -> list[Claim]:
        return await (by or self.backend).claim(
            sources or [self.stream],
            consumer=consumer,
            limit=limit,
            suspects=suspects,
            children=children,
            constrained=constrained,
            wait=wait,
        )

    async def claim_ids(
        self,
        limit: int = 100,
        *,
        sources: Sequence[Stream] = (),
        suspects: int = 100,
        children: int | None = None,
    ) -> list[str]:
        claims = await self.claim(limit, sources=sources, suspects=suspects, children=children)
        return [claim.id for claim in claims]

    async def claim_one(
        self, id: str | None = None, *, consumer: str = "worker-1", by: StreamRouter | None = None
    ) -> Claim:
        """The next message, which must be there, and must be `id` where that is given."""
        claims = await self.claim(1, consumer=consumer, by=by)
        assert len(claims) == 1
        assert id in (None, claims[0].id)
        return claims[0]

    async def running(self, id: str | None = None, *, unique: UniqueKey | None = None) -> Claim:
        """A message that was just added and claimed."""
        return await self.claim_one(await self.add(id, unique=unique))

    async def settle(self, claim: Claim, outcome: Outcome, *, by: StreamRouter | None = None) -> Verdict:
        (verdict,) = await (by or self.backend).settle([Settlement(claim, outcome)])
        return verdict

    async def settle_done(self, claim: Claim, *, value: bytes | None = None, ttl: float = 3600) -> Verdict:
        """Success, with a kept result where a value is given."""
        return await self.settle(claim, kept(value, ttl=ttl) if value is not None else Done())

    async def die(self, claim: Claim, reason: DeadReason = DeadReason.EXHAUSTED) -> None:
        assert await self.settle(claim, dead(claim.state, reason)) is Verdict.KEPT

    async def retry(self, claim: Claim, *, delay: float = 10) -> None:
        assert await self.settle(claim, retry(claim.state, delay=delay)) is Verdict.KEPT

    # --- upkeep ------------------------------------------------------------------------------------------

    async def reclaim(
        self,
        *,
        limit: int = 100,
        sources: Sequence[Stream] = (),
        crash_limits: Mapping[Stream, int] = NO_CRASH_LIMITS,
    ) -> list[Recovery]:
        """Steps of `limit` until the scan has come round."""
        recovered: list[Recovery] = []
        for _ in range(1000):
            step = await self.backend.reclaim(
                sources or [self.stream], limit=limit, crash_limits=crash_limits
            )
            assert len(step.recovered) <= limit
            recovered += step.recovered
            if not step.more:
                return recovered
        raise AssertionError("reclaim never came round")

    async def lose(self, claim: Claim, crash_limits: Mapping[Stream, int] = NO_CRASH_LIMITS) -> Recovery:
        """Let the lease of the only claim run out and have it reclaimed."""
        await self.advance(LEASE + 1)
        (recovery,) = await self.reclaim(crash_limits=crash_limits)
        assert recovery.id == claim.id
        return recovery

    async def renew(self, *claims: Claim, after_outage: bool = False) -> list[Renewal]:
        """As a worker does it: on an event loop in a thread of its own, over a connection of its own."""
        keeper = self.backend.lease_keeper()

        async def renew() -> list[Renewal]:
            try:
                return await keeper.renew(claims, after_outage=after_outage)
            finally:
                await keeper.close()

        return await asyncio.to_thread(asyncio.run, renew())

    async def promote(self, *, limit: int = 100, sources: Sequence[Stream] = ()) -> Promoted:
        sources = sources or [self.stream]
        promoted = await self.backend.promote(sources, limit=limit)
        if promoted.by_stream is not None:
            # The time for all streams is the earliest of the times for each stream.
            assert min(promoted.by_stream.values(), default=None) == promoted.next_in_us
            assert promoted.by_stream.keys() <= set(sources)
        return Promoted(promoted.count, promoted.next_in_us)

    # --- looking -----------------------------------------------------------------------------------------

    async def look(self, id: str, *, source: Stream | None = None) -> Record:
        """The record of a message that must be there."""
        record = await self.backend.get(source or self.stream, id)
        assert record is not None
        assert (record.stream, record.id) == (source or self.stream, id)
        return record

    async def status(self, id: str, *, source: Stream | None = None) -> JobStatus:
        record = await self.backend.get(source or self.stream, id)
        return record.status if record else JobStatus.UNKNOWN

    async def counts(self, *, source: Stream | None = None) -> Counts:
        return await self.backend.counts(source or self.stream)


def inner_of(router: StreamRouter) -> PartitionedStore:
    """The store below the router. A test of parts is skipped where a store has none."""
    if not isinstance(router.store, PartitionedStore):
        pytest.skip("this tests parts, and the store has none: it is no PartitionedStore")
    return router.store


def kept(value: bytes | None, *, ttl: float = 3600, note: str = "") -> Done:
    return Done(Kept(value, microseconds(ttl), note))


def retry(state: State = FRESH, *, delay: float = 10, worker: str = "worker-1") -> Retry:
    return Retry(state.failed(TrailEntry(1, "failed", worker, "no such row")), microseconds(delay))


def dead(state: State = FRESH, reason: DeadReason = DeadReason.EXHAUSTED) -> Dead:
    return Dead(state.failed(TrailEntry(1, "failed", "worker-1", "no such row")), reason, FAILURE)


def worker_info(consumer: str = "worker-1") -> WorkerInfo:
    return WorkerInfo(consumer, "host", 42, started_us=1, queues=("work",), concurrency=10)
