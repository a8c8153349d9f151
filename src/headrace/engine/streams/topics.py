"""The verbs of topics over parts: each part is a log of its own, with groups of its own.

The data of a whole topic is stored in every part. A group is in every part of its topic, and has a position
in each. Until an event is settled, only its part knows of the claim. The parts of a topic are fixed from its
first use on. For a topic without parts every verb goes straight to the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from headrace.core.errors import BackendUnavailable, Moved, UnknownEvent
from headrace.core.messages.message import Stream, group_stream
from headrace.core.rules.layout import PART_MARK, whole_stream
from headrace.core.topics.position import Position, TopicReading
from headrace.core.topics.topic import (
    BEGINNING,
    NEW,
    KeptTopics,
    LogEntry,
    Reading,
    Start,
    TopicRecord,
    TopicRules,
)

from .layouts import Routed, base_of
from .topic_reader import TopicReader, places_of, reading_of_one, starts_in_parts
from .whole_names import merged_kept, merged_topic

T = TypeVar("T")

#: The consumer name for the search for an event.
FINDER: Final = "finder"


class TopicVerbs(Routed):
    _topic_reader: TopicReader
    _consumers: set[str]

    # --- the topic ---------------------------------------------------------------------------------------

    async def declare_topic(self, topic: Stream, rules: TopicRules) -> None:
        async def declare_topic(parts: Sequence[str]) -> None:
            await asyncio.gather(*(self.store.declare_topic(Stream("topic", part), rules) for part in parts))

        await self._in_parts(topic, declare_topic)

    async def topics(self, names: Sequence[str] | None = None) -> list[TopicRecord]:
        if names is not None:
            parts = [await self._layouts.parts(Stream("topic", name)) for name in names]
            names = [part.name for several in parts for part in several]
        records = await self.store.topics(names)
        if not any(PART_MARK in record.stream.name for record in records):
            return records
        by_topic: dict[Stream, list[TopicRecord]] = {}
        for record in sorted(records, key=_index):
            by_topic.setdefault(whole_stream(record.stream), []).append(record)
        return [
            await self._with_pauses(
                merged_topic(topic, by_topic[topic], len(await self._layouts.parts(topic)))
            )
            for topic in sorted(by_topic, key=lambda each: each.name)
        ]

    async def _with_pauses(self, record: TopicRecord) -> TopicRecord:
        """The record with the pauses of the groups themselves: a worker that starts pauses the parts of such
        a group."""
        if record.parts == 1:
            return record
        own = await asyncio.gather(*(self.store.counts(group.stream) for group in record.groups))
        groups = [
            replace(group, counts=replace(group.counts, paused=group.counts.paused or each.paused))
            for group, each in zip(record.groups, own, strict=True)
        ]
        return replace(record, groups=tuple(groups))

    # --- reading -----------------------------------------------------------------------------------------

    async def read(
        self, topic: Stream, after: Position | Start, *, consumer: str, limit: int, wait: float
    ) -> TopicReading:
        parts = [part.name for part in await self._layouts.parts(topic)]
        self._consumers.add(consumer)  # it is woken when the topic gets its parts
        try:
            if parts == [topic.name]:
                place = after if isinstance(after, Start) else after.number_in(topic.name)
                reading = await self.store.read(topic, place, consumer=consumer, limit=limit, wait=wait)
                return reading_of_one(topic.name, reading)
            places = await self._places_after(topic, after, parts)
            return await self._topic_reader.read(places, consumer=consumer, limit=limit, wait=wait)
        finally:
            self._consumers.discard(consumer)

    async def _places_after(
        self, topic: Stream, after: Position | Start, parts: Sequence[str]
    ) -> dict[str, int]:
        if not isinstance(after, Start):
            return places_of(after, parts)
        starts = await self._starts(topic, after, parts)
        readings = await asyncio.gather(*(self._peek(part, each) for part, each in starts.items()))
        return {part: each.begun_after for part, each in zip(starts, readings, strict=True)}

    async def position_of(self, group: Stream) -> Position:
        """The position of a group in each part of its topic."""
        parts = [part.topic for part in await self._layouts.parts(group)]
        records = [each for topic in await self.store.topics(parts) for each in topic.groups]
        return Position(
            {each.stream.topic: each.position for each in records if each.stream.group == group.group}
        )

    async def _starts(self, topic: Stream, start: Start, parts: Sequence[str]) -> dict[str, Start]:
        found = await self._part_with(topic, start, parts) if start.at == "event" else {}
        return starts_in_parts(start, parts, found)

    async def _part_with(self, topic: Stream, start: Start, parts: Sequence[str]) -> dict[str, LogEntry]:
        """The part that has an event. It first checks the part for events without a key: a search is slow."""
        plan = await self._layouts.plan(topic)
        likely = [] if plan is None else [plan.likely(start.event).name]
        for part in dict.fromkeys((*likely, *parts)):
            try:
                reading = await self._peek(part, start)
            except UnknownEvent:
                continue
            return {part: reading.entries[0]}
        raise UnknownEvent(
            f"the topic holds no event {start.event!r}: it never did, or it was trimmed by now"
        )

    async def _peek(self, part: str, start: Start) -> Reading:
        return await self.store.read(
            Stream("topic", part), start, consumer=f"{FINDER}@{part}", limit=1, wait=0.0
        )

    # --- groups ------------------------------------------------------------------------------------------

    async def join(self, group: Stream, start: Start, *, ordered: bool = False) -> bool:
        async def join(parts: Sequence[str]) -> bool:
            if parts == [group.topic]:
                return await self.store.join(group, start, ordered=ordered)
            return await self._join_parts(group, start, parts, ordered=ordered)

        return await self._in_parts(group, join)

    async def _join_parts(self, group: Stream, start: Start, parts: Sequence[str], *, ordered: bool) -> bool:
        """Join the group in every part. The first part decides whether the group is new: when several workers
        join at once, each of them may be the first in some part."""
        starts = await self._joining(group, start, parts)
        joined = await asyncio.gather(
            *(
                self.store.join(group_stream(part, group.group), starts[part], ordered=ordered)
                for part in parts
            )
        )
        return joined[0]

    async def _joining(self, group: Stream, start: Start, parts: Sequence[str]) -> dict[str, Start]:
        """The start of a group in each part. A group that is in every part keeps its positions, whatever
        `start` is. When a group is in some parts and the first event was trimmed, it begins with the oldest
        event."""
        known = await self._parts_with_group(group, parts)
        if known.issuperset(parts):
            return dict.fromkeys(parts, NEW)
        try:
            return await self._starts(base_of(group), start, parts)
        except UnknownEvent:
            if not known:
                raise
            return dict.fromkeys(parts, BEGINNING)

    async def _parts_with_group(self, group: Stream, parts: Sequence[str]) -> set[str]:
        return set(await self._positions(group, parts))

    async def keep_topics(self, groups: Sequence[Stream], *, limit: int) -> KeptTopics:
        plans = [(group, await self._layouts.plan(group)) for group in groups]
        streams = [part for group, plan in plans for part in (plan.parts if plan else (group,))]
        kept = await self.store.keep_topics(streams, limit=limit)
        return kept if len(streams) == len(groups) else merged_kept(kept, whole_stream)

    async def reset(self, group: Stream, start: Start) -> bool:
        parts = [part.topic for part in await self._layouts.parts(group)]
        if parts == [group.topic]:
            return await self.store.reset(group, start)
        if not await self._parts_with_group(group, parts):
            return False
        starts = await self._starts(base_of(group), start, parts)
        await asyncio.gather(
            *(self.store.reset(group_stream(part, group.group), starts[part]) for part in parts)
        )
        return True

    async def rewind(self, group: Stream, start: Start) -> bool:
        """Like `reset`, but never ahead: a part in which the group has not come to `start` yet stays as it
        is, so that the group misses no event."""
        parts = [part.topic for part in await self._layouts.parts(group)]
        positions = await self._positions(group, parts)
        if not positions:
            return False
        whole = parts == [group.topic]
        starts = {group.topic: start} if whole else await self._starts(base_of(group), start, parts)
        for part, position in positions.items():
            if position > (await self._peek(part, starts[part])).begun_after:
                await self.store.reset(group_stream(part, group.group), starts[part])
        return True

    async def _positions(self, group: Stream, parts: Sequence[str]) -> dict[str, int]:
        """The position of the group in each part that has it."""
        return {
            record.stream.name: each.position
            for record in await self.store.topics(parts)
            for each in record.groups
            if each.stream.group == group.group
        }

    async def remove_stream(self, stream: Stream) -> bool:
        parts = await self._layouts.parts(stream)
        if parts == (stream,):
            return await self.store.remove_stream(stream)
        if stream.kind != "group":
            return False  # the parts of a topic stay, and those of a queue go by themselves
        removed = await asyncio.gather(*map(self.store.remove_stream, parts))
        await self.store.remove_stream(stream)  # its lease and its pause are kept under its own name
        return any(removed)

    async def _in_parts(self, stream: Stream, do: Callable[[Sequence[str]], Awaitable[T]]) -> T:
        """Call `do` with all parts of a topic, or of a group's topic. This creates the topic; another process
        may have created it first, with parts."""
        base = base_of(stream)
        for _ in range(2):
            plan = await self._layouts.plan(base)
            try:
                return await do([base.name] if plan is None else [part.name for part in plan.parts])
            except Moved:
                await self._layouts.refresh(base)
        raise BackendUnavailable(
            f"{base.name!r} is sealed, and the store has no layout with its parts: the store was changed by"
            " hand"
        )


def _index(record: TopicRecord) -> tuple[str, int]:
    """A sort key: by name, with the parts of a topic in their order."""
    name, _, place = record.stream.name.partition(PART_MARK)
    return name, int(place.partition(".")[2] or 0)
