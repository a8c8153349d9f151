"""A topic in memory with parts, used by several processes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Batch, Message, Stream, UniqueKey, group_stream
from headrace.core.messages.outcome import Done, Outcome, Settlement, Verdict
from headrace.core.records.answers import Answer
from headrace.core.runtime.clock import SECOND, MovableClock
from headrace.core.topics.position import Position, TopicReading
from headrace.core.topics.topic import BEGINNING, GroupRecord, Start, TopicRecord
from headrace.engine.streams import StreamRouter
from headrace.stores.memory.shared_state import SharedState
from headrace.stores.memory.store import MemoryStore

TOPIC: Final = Stream("topic", "orders")
LEASE_US: Final = 30 * SECOND


class PartedOrders:
    def __init__(self, parts: int = 3, *, processes: int = 2) -> None:
        self.clock = MovableClock()
        self.state = SharedState()
        self.processes = [
            StreamRouter(MemoryStore(self.state, name="test", clock=self.clock)) for _ in range(processes)
        ]
        self.backend = self.processes[0]
        for process in self.processes:
            process.declare(TOPIC, parts)
        self._numbers = [count(1) for _ in range(processes)]

    async def publish(
        self, *ids: str, key: str = "", by: int = 0, delay: float = 0, unique: UniqueKey | None = None
    ) -> list[Answer]:
        events = [
            Message(id, "placed", b"", delay_us=round(delay * SECOND), key=key, unique=unique) for id in ids
        ]
        return await self.publish_all(events, by=by)

    async def publish_all(self, events: Sequence[Message], *, by: int = 0) -> list[Answer]:
        batch = Batch(TOPIC, f"producer-{by}", next(self._numbers[by]), list(events))
        return await self.processes[by].append(batch)

    async def join(
        self, name: str = "billing", start: Start = BEGINNING, *, ordered: bool = False, by: int = 0
    ) -> Stream:
        group = group_stream("orders", name)
        await self.processes[by].join(group, start, ordered=ordered)
        await self.processes[by].declare_stream(group, LEASE_US)
        return group

    async def claim(
        self, group: Stream, limit: int = 100, *, by: int = 0, wait: float = 0, consumer: str | None = None
    ) -> list[Claim]:
        return await self.processes[by].claim(
            [group], consumer=consumer or f"worker-{by}", limit=limit, suspects=limit, wait=wait
        )

    async def claim_ids(self, group: Stream, limit: int = 100, *, by: int = 0) -> list[str]:
        return [claim.id for claim in await self.claim(group, limit, by=by)]

    async def settle(self, claim: Claim, outcome: Outcome, *, by: int = 0) -> Verdict:
        [verdict] = await self.processes[by].settle([Settlement(claim, outcome)])
        return verdict

    async def done(self, claims: Sequence[Claim], *, by: int = 0) -> None:
        verdicts = await self.processes[by].settle([Settlement(claim, Done()) for claim in claims])
        assert verdicts == [Verdict.KEPT] * len(claims)

    async def finish(self, group: Stream, *, by: int = 0) -> list[str]:
        """Handle whatever comes until nothing does."""
        finished: list[str] = []
        while claims := await self.claim(group, by=by):
            await self.done(claims, by=by)
            finished += [claim.id for claim in claims]
        return finished

    async def promote(self, *groups: Stream) -> int:
        sources = [TOPIC, *groups]
        return (await self.backend.promote(sources, limit=100)).count

    async def read(
        self,
        after: Position | Start = BEGINNING,
        *,
        limit: int = 100,
        wait: float = 0,
        by: int = 0,
        consumer: str = "reader",
    ) -> TopicReading:
        return await self.processes[by].read(TOPIC, after, consumer=consumer, limit=limit, wait=wait)

    async def read_all(self, after: Position | Start = BEGINNING, *, limit: int = 100) -> list[str]:
        """Page by page until there is nothing."""
        ids: list[str] = []
        while entries := (reading := await self.read(after, limit=limit)).entries:
            ids += [entry.id for entry in entries]
            after = reading.position
        return ids

    async def record(self, *, by: int = 0) -> TopicRecord:
        [record] = await self.processes[by].topics(["orders"])
        return record

    async def group_record(self, group: Stream, *, by: int = 0) -> GroupRecord:
        [found] = [each for each in (await self.record(by=by)).groups if each.stream == group]
        return found


def ids_of(count: int, prefix: str = "e") -> list[str]:
    """So many names of events, in alphabetical order."""
    return [f"{prefix}{number:02}" for number in range(count)]
