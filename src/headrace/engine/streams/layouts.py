"""Reads and changes the layouts in the store, and remembers those that this process knows.

It reads a layout when a stream is first used, and after a change.
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

#: Seconds after which a producer reads the layout of a split stream again. This is far less than the
#: time after which a generation is forgotten, with its seal.
READ_AGAIN_AFTER = 60.0

#: Seconds for which a process that only reads trusts a known layout.
RECENT = 2.0

#: Layouts that are kept in memory. Beyond that, some layouts of whole streams are forgotten.
STREAMS_MOST = 1000

#: Streams whose first use the running task has begun. It must not wait for itself.
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
        """Forbid appends to a part, or to the queue itself, from now on."""
        stored, wanted = WHOLE, SEALED
        while (found := await self.swap(stream, stored, wanted)) != wanted:
            if found.sealed:
                return
            stored, wanted = found, msgspec.structs.replace(found, sealed=True)


class KnownLayouts:
    """The known layouts by stream. A group has the layout of its topic.

    `whole` holds the streams without parts. For them the only cost is a lookup in this set.
    """

    def __init__(self, store: Store, changed: Callable[[Stream], None]) -> None:
        self.stored = StoredLayouts(store)
        self._changed = changed
        self._first_use: FirstUse = _as_it_is
        self.whole: set[Stream] = set()
        #: The streams that workers of this process claim from.
        self.served: set[Stream] = set()
        #: Part → the stream that it is a part of.
        self.wholes: dict[Stream, Stream] = {}
        self._layouts: dict[Stream, Layout] = {}
        self._plans: dict[Stream, Plan] = {}
        self._read_at: dict[Stream, float] = {}
        self._used: set[Stream] = set()
        self._beginning: dict[Stream, asyncio.Lock] = {}

    def on_first_use(self, decide: FirstUse) -> None:
        """Let `decide` decide about a layout that was read for the first time."""
        self._first_use = decide

    @property
    def any_split(self) -> bool:
        """Whether this process knows a stream with parts."""
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
        """All parts of a stream, the oldest first. For a whole stream: the stream itself."""
        plan = await self.recent_plan(stream)
        return (stream,) if plan is None else plan.parts

    async def recent_plan(self, stream: Stream) -> Plan | None:
        """`plan` for a caller that only reads. It reads an old layout again: a process without a worker gets
        no announcements and sends no heartbeats, so it may have missed a change."""
        if self.age(stream) > RECENT:
            with contextlib.suppress(BackendUnavailable):  # the next request raises it, if it matters
                await self.refresh(stream)
        return await self.plan_in_sight(stream)

    async def plan_in_sight(self, stream: Stream) -> Plan | None:
        """`plan` for a caller that only reads, from known layouts. It does not count as a use of the stream
        and makes no layout: the caller may not have the rights for that."""
        base = base_of(stream)
        if base in self._used:
            return await self.plan(stream)
        layout = self._layouts.get(base, WHOLE)
        return None if layout.whole else plan_of(stream, layout)

    async def _use(self, base: Stream) -> None:
        """Use a stream for the first time. Other callers wait for this."""
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
                self._beginning.pop(base, None)  # it belongs to this event loop; there may be another

    def _forget_whole(self) -> None:
        """Forget all whole queues, except the newest and those served here. The next use reads the layout
        again."""
        for base in list(self._layouts)[: -STREAMS_MOST // 2]:
            if base.kind == "queue" and base not in self.served and self._layouts[base] == WHOLE:
                del self._layouts[base], self._read_at[base]
                self._used.discard(base)
                self.whole.discard(base)

    async def plan_for_append(self, stream: Stream) -> Plan | None:
        """`plan` for a caller that is about to append. It reads an old layout again."""
        base = base_of(stream)
        read_at = self._read_at.get(base)
        if stream not in self.whole and read_at is not None and time.monotonic() - read_at > READ_AGAIN_AFTER:
            await self.refresh(base)
        return await self.plan(stream)

    def age(self, stream: Stream) -> float:
        """Seconds since the layout was read from the store."""
        return time.monotonic() - self._read_at.get(base_of(stream), 0.0)

    async def refresh(self, stream: Stream) -> Layout:
        base = base_of(stream)
        return await self.accept(base, await self.stored.read(base))

    async def accept(self, base: Stream, layout: Layout) -> Layout:
        """Accept a layout that was just read. If the store has lost a newer one, restore that."""
        known = self._layouts.get(base)
        if known is not None and layout.is_older_than(known):
            # Other processes may append to the known parts, and later processes must find these messages.
            with contextlib.suppress(BackendUnavailable):  # a user with read rights leaves it to others
                layout = await self._restore(base, known, layout)
        self.learn(base, layout)
        return self._layouts[base]

    async def _restore(self, base: Stream, known: Layout, stored: Layout) -> Layout:
        """Write the known layout again, with its seals, which may be lost too. If only the answer was late,
        nothing is lost and nothing is written."""
        while stored.is_older_than(known):
            found = await self.stored.swap(base, stored, known)
            if found == stored:
                # The topic was lost and then created again as a whole stream. Accept that.
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
        """Remember a layout from the store's answer."""
        known = self._layouts.get(base)
        if known is not None and layout.is_older_than(known):
            return  # a newer answer came before this one
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
    """The attributes that all verbs of the router need."""

    store: Store
    _layouts: KnownLayouts
