"""Which parts of a topic a group of this process has joined, and how it follows its topic into new ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from headrace.core.backend import Backend
from headrace.core.message import Stream, group_stream
from headrace.core.topics import BEGINNING, GroupRecord


class Member(msgspec.Struct, frozen=True):
    """A group as this process knows it: the names of the parts of its topic that it reads, and whether this
    process wants it to be ordered. `in_order`: it is, as another member wants so."""

    ordered: bool
    parts: frozenset[str]
    in_order: bool = False


class Members:
    """A group that was there before its topic was split has all that came since still to read, so it joins
    new parts at their beginning. One that was removed meanwhile is not brought back by a worker that still
    claims for it."""

    def __init__(self, inner: Backend, make_ready: Callable[[Stream], Awaitable[None]]) -> None:
        self._inner = inner
        self._make_ready = make_ready  # its lease and its pause hold in new parts, too
        self._known: dict[Stream, Member] = {}

    def joined(self, group: Stream, parts: Sequence[str], *, ordered: bool, in_order: bool) -> None:
        self._known[group] = Member(ordered, frozenset(parts), in_order)

    def removed(self, group: Stream) -> None:
        self._known.pop(group, None)

    async def of(self, group: Stream, parts: Sequence[str]) -> Member:
        """The group in these parts of its topic. One that is nowhere comes back as a store sees fit."""
        known = self._known.get(group)
        if known is not None and known.parts.issuperset(parts):
            return known
        records = await self.records(group, parts)
        if not records:
            return known or Member(False, frozenset(parts))
        in_order = [*records.values()][-1].ordered
        ordered = in_order if known is None else known.ordered
        await self._make_ready(group)
        # Of one that this process has joined, the store is told in all new parts whether it is ordered.
        joined = records.keys() if known is None else known.parts
        await self._follow(group, [part for part in parts if part not in joined], ordered=ordered)
        member = self._known[group] = Member(ordered, frozenset(parts), in_order)
        return member

    async def records(self, group: Stream, parts: Sequence[str]) -> dict[str, GroupRecord]:
        """What is known of the group in each of these parts, in their order."""
        topics = {record.stream.name: record.groups for record in await self._inner.topics(parts)}
        found = [(part, each) for part in parts for each in topics.get(part, ())]
        return {part: each for part, each in found if each.stream.group == group.group}

    async def _follow(self, group: Stream, parts: Sequence[str], *, ordered: bool) -> None:
        streams = [group_stream(part, group.group) for part in parts]
        await asyncio.gather(*(self._inner.join(each, BEGINNING, ordered=ordered) for each in streams))
