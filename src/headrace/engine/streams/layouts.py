"""Layouts as the store keeps them, and what this process knows of them.

It reads a layout when a stream is first used, and when something has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import msgspec

from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.messages.message import Stream
from headrace.core.rules.layout import SEALED, WHOLE, Layout
from headrace.core.store import PartitionedStore, Store

from .routing import Plan, plan_of, sealed_parts

#: Seconds for which a producer trusts what it knows of a stream that was split. Far less than the time after
#: which a generation is forgotten, with its seal.
TRUSTED = 60.0

#: Seconds for which a process that only looks trusts what it knows of a layout.
RECENT = 2.0

#: Streams whose layout is known at once; beyond that some that are whole are forgotten.
STREAMS_MOST = 1000

#: Streams whose first use the running task has begun: it must not wait for itself.
_beginning_here: ContextVar[frozenset[Stream]] = ContextVar("beginning", default=frozenset())

FirstUse = Callable[[Stream, Layout], Awaitable[Layout]]


async def _as_it_is(stream: Stream, layout: Layout) -> Layout:
    return layout


class StoredLayouts:
    """The layouts in a store. In a store without parts every stream is whole."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def demand(self) -> PartitionedStore:
        """The store, if its streams may have parts."""
        if isinstance(self._store, PartitionedStore):
            return self._store
        raise ConfigurationError(
            f"{self._store.description} has no partitions: leave out `partitions`, or choose a store that has"
        )

    async def read(self, stream: Stream) -> Layout:
        return await self._store.layout(stream) if isinstance(self._store, PartitionedStore) else WHOLE

    async def swap(self, stream: Stream, expected: Layout, new: Layout) -> Layout:
        return await self.demand().swap_layout(stream, expected, new)

    async def seal(self, stream: Stream) -> None:
        """Let nothing be appended to a part, or to the queue itself, from now on."""
        stored, wanted = WHOLE, SEALED
        while (found := await self.swap(stream, stored, wanted)) != wanted:
            if found.sealed:
                return
            stored, wanted = found, msgspec.structs.replace(found, sealed=True)


class KnownLayouts:
    """By stream. A group has the layout of its topic.

    `whole` are the streams that are known to have no parts. One look into it is all that parts cost them.
    """

    def __init__(self, store: Store, changed: Callable[[Stream], None]) -> None:
        self.stored = StoredLayouts(store)
        self._changed = changed
        self._first_use: FirstUse = _as_it_is
        self.whole: set[Stream] = set()
        #: What workers of this process claim from.
        self.served: set[Stream] = set()
        #: Part → the stream that it is a part of.
        self.wholes: dict[Stream, Stream] = {}
        self._layouts: dict[Stream, Layout] = {}
        self._plans: dict[Stream, Plan] = {}
        self._read_at: dict[Stream, float] = {}
        self._used: set[Stream] = set()
        self._beginning: dict[Stream, asyncio.Lock] = {}

    def on_first_use(self, heed: FirstUse) -> None:
        """Have `heed` decide about a layout that was read for the first time."""
        self._first_use = heed

    @property
    def any_split(self) -> bool:
        """Whether this process has met a stream with parts."""
        return bool(self.wholes)

    async def plan(self, stream: Stream) -> Plan | None:
        """The parts of a stream; None: it is whole."""
        if stream in self.whole:
            return None
        plan = self._plans.get(stream)
        if plan is not None:
            return plan
        base = base_of(stream)
        if base not in self._used and base not in _beginning_here.get():
            await self._use(base)
        return self._planned(stream, self._layouts[base])

    async def parts(self, stream: Stream) -> tuple[Stream, ...]:
        """All parts of a stream, the oldest first; of a whole one itself."""
        plan = await self.recent_plan(stream)
        return (stream,) if plan is None else plan.parts

    async def recent_plan(self, stream: Stream) -> Plan | None:
        """The same for a caller that only looks. A process without a worker neither listens nor beats, and
        may not know of a change."""
        if self.age(stream) > RECENT:
            with contextlib.suppress(BackendUnavailable):  # the verb that follows says so, if it matters
                await self.refresh(stream)
        return await self.plan_in_sight(stream)

    async def plan_in_sight(self, stream: Stream) -> Plan | None:
        """The same for a caller that only looks. That is no use of the stream: it does not lay it out, for
        which the caller may not have the rights."""
        base = base_of(stream)
        if base in self._used:
            return await self.plan(stream)
        layout = self._layouts.get(base, WHOLE)
        return None if layout.whole else plan_of(stream, layout)

    async def _use(self, base: Stream) -> None:
        """For the first time. Others who use it meanwhile wait for this."""
        async with self._beginning.setdefault(base, asyncio.Lock()):
            if base in self._used:
                return
            if len(self._layouts) >= STREAMS_MOST:
                self._forget_whole()
            here = _beginning_here.set(_beginning_here.get() | {base})
            try:
                self.learn(base, await self._first_use(base, await self.refresh(base)))
                self._used.add(base)
            finally:
                _beginning_here.reset(here)
                self._beginning.pop(base, None)  # it belongs to this event loop, and there may be another

    def _forget_whole(self) -> None:
        """All whole queues but the newest and those served here. The next use reads the layout again."""
        for base in list(self._layouts)[: -STREAMS_MOST // 2]:
            if base.kind == "queue" and base not in self.served and self._layouts[base] == WHOLE:
                del self._layouts[base], self._read_at[base]
                self._used.discard(base)
                self.whole.discard(base)

    async def trusted_plan(self, stream: Stream) -> Plan | None:
        """The same for a caller that is about to append: what was read long ago is read again."""
        base = base_of(stream)
        read_at = self._read_at.get(base)
        if stream not in self.whole and read_at is not None and time.monotonic() - read_at > TRUSTED:
            await self.refresh(base)
        return await self.plan(stream)

    def age(self, stream: Stream) -> float:
        """Seconds since the store was asked for its layout."""
        return time.monotonic() - self._read_at.get(base_of(stream), 0.0)

    async def refresh(self, stream: Stream) -> Layout:
        base = base_of(stream)
        return await self.heed(base, await self.stored.read(base))

    async def heed(self, base: Stream, layout: Layout) -> Layout:
        """Take what the store has just said, unless it says that it has lost it."""
        known = self._layouts.get(base)
        if known is not None and layout.is_older_than(known):
            # What others append to the parts that this process knows must be found by those that come.
            with contextlib.suppress(BackendUnavailable):  # a user who may only look leaves it to others
                layout = await self._restore(base, known, layout)
        self.learn(base, layout)
        return self._layouts[base]

    async def _restore(self, base: Stream, known: Layout, stored: Layout) -> Layout:
        """With its seals, which may be lost as well. Or it is not lost, and only the answer was late."""
        while stored.is_older_than(known):
            found = await self.stored.swap(base, stored, known)
            if found == stored:
                # The topic was lost and made anew, as a whole. That is how it is now.
                self._forget(base)
                return found
            stored = found
        if stored == known and base.kind == "queue":
            await asyncio.gather(*(self.stored.seal(part) for part in sealed_parts(base, known)))
        return stored

    def _forget(self, base: Stream) -> None:
        del self._layouts[base]
        self._forget_plans(base)
        self._changed(base)

    def learn(self, base: Stream, layout: Layout) -> None:
        """Take what the store has answered."""
        known = self._layouts.get(base)
        if known is not None and layout.is_older_than(known):
            return  # an answer that was overtaken
        self._layouts[base] = layout
        self._read_at[base] = time.monotonic()
        if known is not None and known != layout:
            self._forget_plans(base)
            self._changed(base)

    def known(self) -> list[Stream]:
        """Every queue and topic that was used."""
        return list(self._layouts)

    def _planned(self, stream: Stream, layout: Layout) -> Plan | None:
        if layout.whole:
            self.whole.add(stream)
            return None
        plan = self._plans[stream] = plan_of(stream, layout)
        self.wholes.update((part, stream) for part in plan.parts if part != stream)
        return plan

    def _forget_plans(self, base: Stream) -> None:
        for stream in [each for each in (*self.whole, *self._plans) if base_of(each) == base]:
            self.whole.discard(stream)
            self._plans.pop(stream, None)


def base_of(stream: Stream) -> Stream:
    """The queue or topic whose layout counts."""
    return Stream("topic", stream.topic) if stream.kind == "group" else stream


class Routed:
    """What all verbs of the router need."""

    store: Store
    _layouts: KnownLayouts
