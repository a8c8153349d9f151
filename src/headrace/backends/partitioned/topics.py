"""The verbs of topics over parts: each part is a log of its own, with groups of its own.

What belongs to a topic as a whole is told to every part. A group is in every part of its topic, and has a
position in each; what it takes from a part is that part's alone until it is settled. For a topic that was
never split every verb goes straight to the store.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from headrace.core.errors import ConfigurationError, UnknownEvent
from headrace.core.layout import PART_MARK, Layout, parts_of, whole_stream
from headrace.core.message import Stream, group_stream
from headrace.core.record import Counts
from headrace.core.topics import (
    BEGINNING,
    NEW,
    GroupRecord,
    LogEntry,
    Places,
    Position,
    Reading,
    Start,
    Tended,
    TopicRecord,
    TopicRules,
    Topics,
)

from .admission import Admission, ClaimPlaces
from .desk import Desk
from .group_gate import OPEN_FOR, Gate
from .group_members import Members
from .layouts import base_of
from .routing import Plan
from .topic_places import Ranks, places_of, starts_in_parts
from .topic_reader import TopicReader
from .topic_records import merged_tended, merged_topic

#: Seconds that a reset of an ordered group waits before it goes on to the next generation: by then every
#: look that counts has seen that there is something to do in the one before.
SEEN_BY_ALL: Final = 1.5 * OPEN_FOR

#: Seconds for which a process that hears of no changes, because it has no worker, trusts what it knows.
LATELY: Final = 2.0

#: Who looks where an event is.
FINDER: Final = "finder"


class PartitionedTopics(Desk, Topics):
    _consumers: set[str]

    def _begin_topics(self) -> None:
        self._ranks_by_topic: dict[Stream, tuple[Layout, Ranks]] = {}
        self._reader = TopicReader(self._inner)
        self._gate = Gate(self._inner)
        self._admission = Admission(self._inner, self._gate)
        self._members = Members(self._inner, self._make_group_ready)

    # --- the topic ---------------------------------------------------------------------------------------

    async def arrange(self, topic: Stream, rules: TopicRules) -> None:
        parts = _flat(await self._ranks(topic))
        await asyncio.gather(*(self._inner.arrange(Stream("topic", part), rules) for part in parts))

    async def _prepare_topic(self, topic: Stream, coming: Sequence[Stream]) -> None:
        """Give parts that are about to be used the rules of the topic, and its groups, for whose sake their
        events are kept from the first one on."""
        await self._layouts.refresh(topic)
        for record in await self.topics([topic.name]):
            for part in coming:
                await self._inner.arrange(part, record.rules)
                for group in record.groups:
                    await self._bring(group, part)

    async def _bring(self, group: GroupRecord, part: Stream) -> None:
        stream = group_stream(part.name, group.stream.group)
        try:
            await self._inner.join(stream, BEGINNING, ordered=group.ordered)
        except ConfigurationError:
            return  # whoever may only publish leaves that to the group's members, who join when they see it
        if group.counts.paused:
            await self._inner.pause(stream, paused=True)

    async def _clear_topic(self, part: Stream) -> bool:
        """Take the groups off a sealed part in which nothing is left for anybody, not even a dead letter;
        False: there is something."""
        records = await self._inner.topics([part.name])
        groups = [group for record in records for group in record.groups]
        if any(record.length or record.scheduled for record in records):
            return False
        if any(_has_anything(group.counts) for group in groups):
            return False
        for group in groups:
            await self._inner.remove(group.stream)
        return True

    async def topics(self, names: Sequence[str] | None = None) -> list[TopicRecord]:
        if names is not None:
            names = [
                part for name in names for part in _flat(await self._ranks_lately(Stream("topic", name)))
            ]
        records = await self._inner.topics(names)
        if not any(PART_MARK in record.stream.name for record in records):
            return records
        by_topic: dict[Stream, list[TopicRecord]] = {}
        for record in sorted(records, key=_rank):
            by_topic.setdefault(whole_stream(record.stream), []).append(record)
        return [
            merged_topic(topic, by_topic[topic], await self._current_parts(topic))
            for topic in sorted(by_topic, key=lambda each: each.name)
        ]

    async def _current_parts(self, topic: Stream) -> int:
        plan = await self._layouts.plan(topic)
        return 1 if plan is None else plan.layout.current.parts

    # --- reading -----------------------------------------------------------------------------------------

    def _wake_readers(self, consumer: str) -> None:
        self._reader.wake(consumer)

    async def read(
        self, topic: Stream, after: Position | Start, *, consumer: str, limit: int, wait: float
    ) -> Reading:
        ranks = await (self._ranks_now(topic) if isinstance(after, Start) else self._ranks_lately(topic))
        self._consumers.add(consumer)  # who is woken when the topic is split
        try:
            if _is_whole(ranks):
                place = after.numbers.get(topic.name, 0) if isinstance(after, Places) else after
                return await self._inner.read(topic, place, consumer=consumer, limit=limit, wait=wait)
            places = await self._places_after(topic, after, ranks)
            return await self._reader.read(
                lambda: self._ranks_lately(topic), places, consumer=consumer, limit=limit, wait=wait
            )
        finally:
            self._consumers.discard(consumer)

    async def _places_after(self, topic: Stream, after: Position | Start, ranks: Ranks) -> dict[str, int]:
        return await self._seek(topic, after, ranks) if isinstance(after, Start) else places_of(after, ranks)

    async def _seek(self, topic: Stream, start: Start, ranks: Ranks) -> dict[str, int]:
        starts = await self._starts(topic, start, ranks)
        readings = await asyncio.gather(*(self._peek(part, each) for part, each in starts.items()))
        places = zip(starts, (reading.after(0) for reading in readings), strict=True)
        return {part: place for part, place in places if isinstance(place, int)}

    async def _starts(self, topic: Stream, start: Start, ranks: Ranks) -> dict[str, Start]:
        found = await self._part_with(topic, start, ranks) if start.at == "event" else {}
        return starts_in_parts(start, ranks, found)

    async def _part_with(self, topic: Stream, start: Start, ranks: Ranks) -> dict[str, LogEntry]:
        """The part that has an event. Where it is without a key is looked first: a search takes its time."""
        plan = await self._layouts.plan(topic)
        likely = [] if plan is None else [plan.likely(start.event).name]
        for part in dict.fromkeys((*likely, *reversed(_flat(ranks)))):
            try:
                reading = await self._peek(part, start)
            except UnknownEvent:
                continue
            return {part: reading.entries[0]}
        raise UnknownEvent(
            f"the topic holds no event {start.event!r}: it never did, or it was trimmed by now"
        )

    async def _peek(self, part: str, start: Start) -> Reading:
        return await self._inner.read(
            Stream("topic", part), start, consumer=f"{FINDER}@{part}", limit=1, wait=0.0
        )

    # --- groups ------------------------------------------------------------------------------------------

    async def join(self, group: Stream, start: Start, *, ordered: bool = False) -> bool:
        ranks = await self._ranks_now(group)
        parts = _flat(ranks)
        if _is_whole(ranks):
            new = await self._inner.join(group, start, ordered=ordered)
        else:
            new = await self._join_parts(group, start, ranks, ordered=ordered)
        known = await self._members.records(group, parts) if len(ranks) > 1 else {}
        in_order = any(each.ordered for each in known.values())
        self._members.joined(group, parts, ordered=ordered, in_order=in_order)
        self._gate.close(group)
        return new

    async def _join_parts(self, group: Stream, start: Start, ranks: Ranks, *, ordered: bool) -> bool:
        known = await self._members.records(group, _flat(ranks))
        starts = await self._joining(group, start, ranks, set(known))
        # The latest first: whoever finds a group there and not in an older one knows that it has just begun.
        first, *others = reversed(_flat(ranks))
        new = await self._inner.join(group_stream(first, group.group), starts[first], ordered=ordered)
        await asyncio.gather(
            *(
                self._inner.join(group_stream(part, group.group), starts[part], ordered=ordered)
                for part in others
            )
        )
        return new and not known

    async def _joining(self, group: Stream, start: Start, ranks: Ranks, known: set[str]) -> dict[str, Start]:
        """Where it begins in each part: where it is told to, but in a generation that was made after it was
        there, at the beginning."""
        meant = await self._meant(group, start, ranks, known)
        starts: dict[str, Start] = {}
        was_there = False
        for rank in ranks:
            here = not known.isdisjoint(rank)
            starts |= {part: BEGINNING if was_there and not here else meant[part] for part in rank}
            was_there = was_there or here
        return starts

    async def _meant(self, group: Stream, start: Start, ranks: Ranks, known: set[str]) -> dict[str, Start]:
        """A group that is everywhere keeps its positions, whatever it is told; one that is somewhere need not
        begin with an event that was trimmed since."""
        if known.issuperset(_flat(ranks)):
            return dict.fromkeys(known, NEW)
        try:
            return await self._starts(base_of(group), start, ranks)
        except UnknownEvent:
            if not known:
                raise
            return dict.fromkeys(_flat(ranks), BEGINNING)

    async def tend(self, groups: Sequence[Stream], *, limit: int) -> Tended:
        streams = [stream for group in groups for stream in await self._streams_of_member(group)]
        tended = await self._inner.tend(streams, limit=limit)
        return tended if len(streams) == len(groups) else merged_tended(tended, whole_stream)

    async def reset(self, group: Stream, start: Start) -> bool:
        ranks = await self._ranks_now(group)
        if _is_whole(ranks):
            return await self._inner.reset(group, start)
        known = await self._members.records(group, _flat(ranks))
        if not known:
            return False
        starts = await self._starts(base_of(group), start, ranks)
        ordered = [*known.values()][-1].ordered
        for rank in ranks:
            await asyncio.gather(
                *(self._reset_part(group, part, starts[part], ordered=ordered) for part in rank)
            )
            self._gate.close(group)
            if ordered and rank is not ranks[-1] and await self._gate.left_in(group, rank):
                await asyncio.sleep(SEEN_BY_ALL)
        return True

    async def _reset_part(self, group: Stream, part: str, start: Start, *, ordered: bool) -> None:
        stream = group_stream(part, group.group)
        if not await self._inner.reset(stream, start):
            await self._inner.join(stream, start, ordered=ordered)

    async def remove(self, group: Stream) -> bool:
        topic, layout = base_of(group), await self._layout_now(group)
        self._members.removed(group)
        self._gate.close(group)
        if layout.whole and not layout.proposed:
            return await self._inner.remove(group)
        # Whoever carries out a change may have brought the group to the parts that are to come.
        coming = [layout.next] if layout.proposed else []
        parts = [part.name for each in (*layout.generations, *coming) for part in parts_of(topic, each)]
        known = await self._members.records(group, parts)
        for part in parts if known else ():
            stream = group_stream(part, group.group)
            if part not in known:
                # What a part does not know it cannot remember as removed.
                await self._inner.join(stream, NEW)
            await self._inner.remove(stream)
        return bool(known)

    async def _add_claimable(self, group: Stream, places: ClaimPlaces) -> None:
        """The parts of which a group may claim now. In an ordered group those of a generation wait for the
        ones before."""
        ranks = await self._ranks(group)
        member = await self._members.of(group, _flat(ranks))
        count, holds = len(ranks), None
        if (member.ordered or member.in_order) and len(ranks) > 1:
            count, holds = await self._gate.open_ranks(group, ranks)
            places.ordered[group] = ranks
        parts = [part for part in _flat(ranks[:count]) if part in member.parts]
        places.add([group_stream(part, group.group) for part in parts], holds)

    async def _make_group_ready(self, group: Stream) -> None:
        plan = await self._layouts.plan(group)
        if plan is not None:
            await self._make_ready(plan)

    @abstractmethod
    async def _make_ready(self, plan: Plan) -> None:
        """Ensure parts that this process has not met yet."""

    async def _streams_of_member(self, group: Stream) -> list[Stream]:
        """Those of a group that a member speaks for, or the parts of a topic."""
        ranks = await self._ranks(group)
        if _is_whole(ranks):
            return [group]
        if group.kind == "topic":
            return [Stream("topic", part) for part in _flat(ranks)]
        member = await self._members.of(group, _flat(ranks))
        return [group_stream(part, group.group) for part in _flat(ranks) if part in member.parts]

    # --- layouts -----------------------------------------------------------------------------------------

    async def _ranks(self, stream: Stream) -> Ranks:
        """The parts of a topic, or of a group's topic."""
        base = base_of(stream)
        plan = await self._layouts.plan(base)
        if plan is None:
            return ((base.name,),)
        known = self._ranks_by_topic.get(base)
        if known is None or known[0] is not plan.layout:
            known = self._ranks_by_topic[base] = plan.layout, _ranks_of(base, plan.layout)
        return known[1]

    async def _ranks_lately(self, topic: Stream) -> Ranks:
        """For those who only look: nobody may have told this process of a change."""
        if self._layouts.age(topic) > LATELY:
            return await self._ranks_now(topic)
        return await self._ranks(topic)

    async def _ranks_now(self, stream: Stream) -> Ranks:
        return _ranks_of(base_of(stream), await self._layout_now(stream))

    async def _layout_now(self, stream: Stream) -> Layout:
        """As the store has it at this moment: a group that joins must not miss a part, nor get what it did
        not ask for."""
        base = base_of(stream)
        await self._layouts.plan(base)  # when it is used for the first time, it is laid out by this
        return await self._layouts.refresh(base)


def _ranks_of(topic: Stream, layout: Layout) -> Ranks:
    return tuple(
        tuple(part.name for part in parts_of(topic, generation)) for generation in layout.generations
    )


def _flat(ranks: Ranks) -> list[str]:
    return [part for rank in ranks for part in rank]


def _is_whole(ranks: Ranks) -> bool:
    return len(ranks) == 1 and len(ranks[0]) == 1 and PART_MARK not in ranks[0][0]


def _has_anything(counts: Counts) -> bool:
    return bool(counts.queued or counts.running or counts.scheduled or counts.retrying or counts.dead)


def _rank(record: TopicRecord) -> tuple[str, int, int]:
    """The oldest generation first, and within it by index."""
    name, _, place = record.stream.name.partition(PART_MARK)
    number, _, index = place.partition(".")
    return name, int(number or 0), int(index or 0)
