"""The verbs of the store contract for topics and groups."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from headrace.core.messages.message import Stream
from headrace.core.topics.topic import KeptTopics, Reading, Start, TopicRecord, TopicRules, Topics
from headrace.stores.postgres.steps import PostgresSteps

from . import groups, log, retention, topic_records


class PostgresTopics(PostgresSteps, Topics):
    async def declare_topic(self, topic: Stream, rules: TopicRules) -> None:
        if not await self._read(
            lambda connection: log.is_declared(connection, self._namespace, topic, rules)
        ):
            await self._write(lambda transaction: log.declare_topic(transaction, topic, rules))

    async def join(self, group: Stream, start: Start, *, ordered: bool = False) -> bool:
        self._wants_order[group] = ordered
        return await self._write(lambda transaction: groups.join(transaction, group, start, ordered=ordered))

    async def read(
        self, topic: Stream, after: int | Start, *, consumer: str, limit: int, wait: float
    ) -> Reading:
        session = self._use()
        until = monotonic() + wait
        with session.waiters.claiming(frozenset((topic,)), consumer) as waiter:
            while True:
                waiter.reset()
                reading = await self._read_log(topic, after, limit)
                after = reading.position
                left = until - monotonic()
                if self._was_woken(consumer) or reading.entries or left <= 0 or session.closing:
                    return reading
                await waiter.wait(min(left, session.waiters.interval))

    async def _read_log(self, topic: Stream, after: int | Start, limit: int) -> Reading:
        offset_us = self._use().offset_us
        return await self._read(
            lambda connection: log.read(
                connection, self._namespace, topic, after, limit=limit, offset_us=offset_us
            )
        )

    async def keep_topics(self, groups: Sequence[Stream], *, limit: int) -> KeptTopics:
        return await self._write(
            lambda transaction: retention.keep_topics(transaction, groups, limit, self._wants_order),
            durable=False,
        )

    async def topics(self, names: Sequence[str] | None = None) -> list[TopicRecord]:
        return await self._read_at(
            lambda connection, now_us: topic_records.list_topics(connection, self._namespace, names, now_us)
        )

    async def reset(self, group: Stream, start: Start) -> bool:
        return await self._write(lambda transaction: groups.reset(transaction, group, start))
