"""The verbs of the store contract for topics and groups."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from headrace.core.messages.message import Stream
from headrace.core.topics.topic import (
    KeptTopics,
    Reading,
    Start,
    TopicRecord,
    TopicRules,
    Topics,
)
from headrace.stores.sqlite.threads.store_threads import StoreThreads

from . import groups, log, retention, topic_records


class SqliteTopics(StoreThreads, Topics):
    async def declare_topic(self, topic: Stream, rules: TopicRules) -> None:
        await self._write(lambda transaction: log.declare_topic(transaction, topic, rules))

    async def join(self, group: Stream, start: Start, *, ordered: bool = False) -> bool:
        self._wants_order[group] = ordered
        return await self._write(lambda transaction: groups.join(transaction, group, start, ordered=ordered))

    async def read(
        self, topic: Stream, after: int | Start, *, consumer: str, limit: int, wait: float
    ) -> Reading:
        open_file = self._use()
        until = monotonic() + wait
        with open_file.waiters.reading(topic, consumer) as waiter:
            while True:
                waiter.reset()
                reading = await self._read(log.read, topic, after, limit=limit, now_us=self._clock.now_us())
                after = waiter.position = reading.position
                left = until - monotonic()
                if self._was_woken(consumer) or reading.entries or left <= 0:
                    return reading
                await waiter.wait(left)
                if open_file.closing:
                    return reading

    async def keep_topics(self, groups: Sequence[Stream], *, limit: int) -> KeptTopics:
        return await self._write(
            lambda transaction: retention.keep_topics(transaction, groups, limit, self._wants_order),
            durable=False,
            weight=limit,
        )

    async def topics(self, names: Sequence[str] | None = None) -> list[TopicRecord]:
        return await self._read(topic_records.list_topics, names, self._clock.now_us())

    async def reset(self, group: Stream, start: Start) -> bool:
        return await self._write(lambda transaction: groups.reset(transaction, group, start))
