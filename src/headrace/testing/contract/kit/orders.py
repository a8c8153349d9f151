"""A topic on the test stand with its groups, and short ways to say common things."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Message, Stream, UniqueKey, group_stream
from headrace.core.messages.outcome import Done, Settlement, Verdict
from headrace.core.records.answers import Answer, Recovery
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.core.topics.position import Position, TopicReading
from headrace.core.topics.topic import (
    BEGINNING,
    GroupRecord,
    KeptTopics,
    Start,
    TopicRecord,
    TopicRules,
)
from headrace.engine.streams import StreamRouter

from .stand import LEASE, ORDERS, Stand
from .waits import LONG, started

DAY: Final = 24 * 3600.0


class Orders:
    """The topic `orders`. Groups begin with the first event unless a test says otherwise."""

    stream: Final = ORDERS
    source: Final = ORDERS

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.backend = stand.backend

    # --- the topic ---------------------------------------------------------------------------------------

    async def declare_topic(
        self, *, retention: float = 0, max_length: int | None = None, strict: bool = True
    ) -> None:
        rules = TopicRules(microseconds(retention), max_length, strict)
        await self.backend.declare_topic(self.stream, rules)

    def event(
        self,
        id: str | None = None,
        *,
        key: str = "",
        body: bytes = b"hello",
        delay: float = 0,
        lifetime: float = 0,
        unique: UniqueKey | None = None,
    ) -> Message:
        return Message(
            id or new_id(),
            "placed",
            body,
            delay_us=microseconds(delay),
            lifetime_us=microseconds(lifetime),
            unique=unique,
            key=key,
        )

    async def append(self, *events: Message, by: StreamRouter | None = None) -> list[Answer]:
        return await (by or self.backend).append(self.stand.batch(*events, source=self.source))

    async def publish(
        self,
        *ids: str,
        key: str = "",
        delay: float = 0,
        lifetime: float = 0,
        unique: UniqueKey | None = None,
        by: StreamRouter | None = None,
    ) -> None:
        """Events that are accepted, in one batch."""
        events = [self.event(id, key=key, delay=delay, lifetime=lifetime, unique=unique) for id in ids]
        assert await self.append(*events, by=by) == [Answer(id) for id in ids]

    async def publish_keys(self, **keys: str) -> None:
        """Events by id with the key of each."""
        await self.append(*[self.event(id, key=key) for id, key in keys.items()])

    async def read(
        self,
        after: int | Position | Start = 0,
        *,
        limit: int = 100,
        wait: float = 0,
        consumer: str = "reader",
        by: StreamRouter | None = None,
    ) -> TopicReading:
        """`after` may be a number in the one log of a topic without parts; 0: the beginning of all."""
        if isinstance(after, int):
            after = Position({self.stream.name: after})
        return await (by or self.backend).read(self.stream, after, consumer=consumer, limit=limit, wait=wait)

    async def ids(self) -> list[str]:
        """What the log holds."""
        return self._listed([entry.id for entry in (await self.read(0, limit=10_000)).entries])

    def _listed(self, ids: list[str]) -> list[str]:
        """In their order where there is one: parts have none among each other, and the names of events in
        tests are mostly in alphabetical order."""
        return ids if self.stand.parts == 1 else sorted(ids)

    async def record(self) -> TopicRecord:
        (record,) = await self.backend.topics(["orders"])
        return record

    async def promote(self) -> int:
        return (await self.stand.promote(sources=[self.source])).count

    # --- groups ------------------------------------------------------------------------------------------

    async def join(self, name: str = "billing", start: Start = BEGINNING, *, ordered: bool = False) -> Stream:
        """A group that is ready to be claimed from."""
        group = group_stream("orders", name)
        await self.backend.join(group, start, ordered=ordered)
        await self.backend.declare_stream(group, microseconds(LEASE))
        return group

    async def group_record(self, group: Stream) -> GroupRecord:
        (found,) = [each for each in (await self.record()).groups if each.stream == group]
        return found

    async def keep_topics(self, *groups: Stream, limit: int = 1000) -> KeptTopics:
        return await self.backend.keep_topics([group for group in groups], limit=limit)

    async def claim(
        self,
        group: Stream,
        limit: int = 100,
        *,
        consumer: str = "worker-1",
        wait: float = 0,
        by: StreamRouter | None = None,
    ) -> list[Claim]:
        return await self.stand.claim(limit, sources=[group], consumer=consumer, wait=wait, by=by)

    async def claim_ids(
        self, group: Stream, limit: int = 100, *, by: StreamRouter | None = None
    ) -> list[str]:
        return self._listed([claim.id for claim in await self.claim(group, limit, by=by)])

    async def claim_one(
        self, group: Stream, id: str | None = None, *, by: StreamRouter | None = None
    ) -> Claim:
        """The next event, which must be there, and must be `id` where that is given."""
        (claim,) = await self.claim(group, 1, by=by)
        assert id in (None, claim.id)
        return claim

    async def start_claiming(
        self, *groups: Stream, by: StreamRouter | None = None
    ) -> asyncio.Task[list[Claim]]:
        return await started(self.stand.claim(sources=groups, wait=LONG, by=by))

    async def done(self, claims: Sequence[Claim]) -> None:
        verdicts = await self.backend.settle([Settlement(claim, Done()) for claim in claims])
        assert verdicts == [Verdict.KEPT] * len(claims)

    async def finish(self, group: Stream) -> list[str]:
        """Handle whatever the group gets until nothing comes any more."""
        finished: list[str] = []
        while claims := await self.claim(group):
            await self.done(claims)
            finished += [claim.id for claim in claims]
        return finished

    async def lose(self, group: Stream) -> list[Recovery]:
        """Let every lease run out and have what was held reclaimed."""
        await self.stand.advance(LEASE + 1)
        return await self.stand.reclaim(sources=[group])

    async def status(self, group: Stream, id: str) -> JobStatus:
        return await self.stand.status(id, source=group)
