"""Implements the verbs of topics on Redis: each topic is a log, each group is a queue that draws from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core.encoding.decoding import text_of
from headrace.core.errors import Moved
from headrace.core.messages.message import Stream, group_stream
from headrace.core.records.record import Counts
from headrace.core.topics.topic import (
    GroupRecord,
    KeptTopics,
    Reading,
    Start,
    TopicRecord,
    TopicRules,
    Topics,
)
from headrace.stores.redis.entries import read_score
from headrace.stores.redis.keys import TopicKeys
from headrace.stores.redis.scripts import (
    COUNTS,
    DECLARE_TOPIC,
    DESCRIBE_TOPIC,
    JOIN,
    KEEP_TOPICS,
    RESET,
    rules_text,
)
from headrace.stores.redis.server.faults import is_damaged, is_sealed
from headrace.stores.redis.server.labels import labels_of, readable_texts
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import ScriptCall
from headrace.stores.redis.verbs.looking import counts_of

from .log_position import position_of
from .topic_reader import LogReader

#: Events that one script trims.
TRIMMED = 1000

#: The answer of a script that must be called again.
UNFINISHED = 2

#: Seconds for which the connection of an idle reader is kept.
TAIL_KEPT = 60.0


class RedisTopics(Topics):
    _store: RedisServer
    _tails: dict[str, LogReader]

    async def declare_topic(self, topic: Stream, rules: TopicRules) -> None:
        await self._store.demand("producer")
        await self._store.list_streams(topic)
        await self._run_unsealed(topic, self._store.queue(topic).call(DECLARE_TOPIC, rules_text(rules)))

    async def join(self, group: Stream, start: Start, *, ordered: bool = False) -> bool:
        await self._store.demand("worker")
        await self._store.list_streams(_topic_of(group), group)
        self._store.note_order(group, ordered=ordered)
        queue = self._store.queue(group)
        answer = await self._run_unsealed(group, queue.call(JOIN, int(ordered), start.at, start.time_us))
        if answer < 0:
            position = await position_of(self._store, self._store.queue(_topic_of(group)), start)
            answer = await self._run_unsealed(group, queue.call(JOIN, int(ordered), "position", position))
        return bool(answer)

    async def _run_unsealed(self, stream: Stream, call: ScriptCall) -> Any:
        [reply] = await self._store.run_all((call,), tolerates=is_sealed)
        if is_sealed(reply):
            raise Moved(f"{stream.topic} is sealed")
        return reply

    async def read(
        self, topic: Stream, after: int | Start, *, consumer: str, limit: int, wait: float
    ) -> Reading:
        return await self._tail(consumer).read(topic, after, limit, wait)

    def _tail(self, consumer: str) -> LogReader:
        tail = self._tails.get(consumer)
        if tail is None:
            self._drop_idle_tails()
            tail = self._tails[consumer] = LogReader(self._store)
        return tail

    def _drop_idle_tails(self) -> None:
        """Close the connections of idle readers: most readers end without a notice."""
        for consumer in [each for each, tail in self._tails.items() if tail.idle_for > TAIL_KEPT]:
            self._tails.pop(consumer).drop()

    async def keep_topics(self, groups: Sequence[Stream], *, limit: int) -> KeptTopics:
        by_topic: dict[Stream, list[Stream]] = {}
        for stream in groups:
            by_topic.setdefault(_topic_of(stream), []).extend([stream] if stream.kind == "group" else [])
        kept = KeptTopics()
        for topic, several in by_topic.items():
            kept += await self._keep(topic, several, limit)
        return kept

    async def _keep(self, topic: Stream, groups: list[Stream], limit: int) -> KeptTopics:
        words = [word for group in groups for word in (group.group, self._store.wants_order(group))]
        total, more = 0, True
        names: list[list[bytes]] = []
        while more and total < limit:
            call = self._store.queue(topic).call(KEEP_TOPICS, min(limit - total, TRIMMED), *words)
            trimmed, more, back, *names = await self._store.run(call)
            total += trimmed
            if back:
                await self._store.list_streams(
                    topic, *[group_stream(topic.name, name) for name in readable_texts(back)]
                )
        groups_of = [tuple(group_stream(topic.name, name) for name in readable_texts(some)) for some in names]
        return KeptTopics(total, bool(more), *groups_of)

    async def topics(self, names: Sequence[str] | None = None) -> list[TopicRecord]:
        if names is None:
            labels = await labels_of(self._store)
            names = [label.removeprefix("topic:") for label in labels if label.startswith("topic:")]
        topics = [Stream("topic", name) for name in sorted(set(names))]
        if not topics:
            return []
        # A topic whose keys are damaged is left out.
        answers = await self._store.run_all(
            [self._store.queue(topic).call(DESCRIBE_TOPIC) for topic in topics], tolerates=is_damaged
        )
        return [
            await self._record(topic, answer)
            for topic, answer in zip(topics, answers, strict=True)
            if answer is not None and not is_damaged(answer)
        ]

    async def _record(self, topic: Stream, answer: list[Any]) -> TopicRecord:
        rules, first, last, first_us, last_us, scheduled, names = answer
        groups = [group_stream(topic.name, name) for name in readable_texts(names)]
        counts = (
            await self._store.run_all(
                [self._store.queue(group).call(COUNTS) for group in groups], tolerates=is_damaged
            )
            if groups
            else []
        )
        return TopicRecord(
            topic,
            rules_of(text_of(rules)),
            first,
            last,
            first_us,
            last_us,
            scheduled,
            tuple(
                _group_record(group, each)
                for group, each in zip(groups, counts, strict=True)
                if not is_damaged(each)
            ),
        )

    async def reset(self, group: Stream, start: Start) -> bool:
        words: tuple[str, int] = (start.at, start.time_us)
        if start.at == "event":
            topic = self._store.queue(_topic_of(group))
            words = ("position", await position_of(self._store, topic, start))
        answer: int = await self._store.run(self._store.queue(group).call(RESET, *words))
        while answer == UNFINISHED:
            answer = await self._store.run(self._store.queue(group).call(RESET, "further", 0))
        return bool(answer)

    async def _was_removed(self, stream: Stream) -> bool:
        if stream.kind != "group":
            return False
        groups = TopicKeys(self._store.namespace, stream.topic).groups
        removed: bool = await self._store.command("HGET", groups, stream.group) == b"0"
        return removed


def _topic_of(group: Stream) -> Stream:
    return Stream("topic", group.topic)


def rules_of(text: str) -> TopicRules:
    try:
        retention, length, strict = text.split(" ")
        return TopicRules(int(retention), None if length == "-" else int(length), strict == "1")
    except ValueError:
        return TopicRules()  # not declared yet, or damaged


def _group_record(group: Stream, answer: list[Any]) -> GroupRecord:
    lag, position, oldest_us, seen, ordered = answer[8:]
    counts: Counts = counts_of(answer, undrawn=lag)
    return GroupRecord(group, position, lag, counts, oldest_us, read_score(seen), ordered == b"1")
