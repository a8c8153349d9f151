"""Gives streams their parts. A queue gets them in steps that any process can finish, a topic once, before its
first use. What the code declares has an effect only before a stream's first use."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.messages.message import Stream
from headrace.core.rules.layout import (
    PARTS_KEPT_MOST,
    PARTS_MOST,
    WHOLE,
    Generation,
    Layout,
    layout_of_topic,
    parts_of,
)
from headrace.core.store import Store

from .layouts import KnownLayouts

log = logging.getLogger("headrace")


class Splitting:
    """Changes layouts."""

    def __init__(self, store: Store, layouts: KnownLayouts) -> None:
        self._store = store
        self._layouts = layouts
        self._stored = layouts.stored

    async def split(self, queue: Stream, parts: int) -> Layout:
        """Give a queue this many parts. A change that another process has proposed is completed first."""
        # If the store has lost a known layout, it is restored first: each number is used only once.
        layout = await self._layouts.refresh(queue)
        while layout.current.parts != parts or layout.proposed:
            _check_room(queue, layout, parts)
            wanted = layout.with_proposal(parts)
            if wanted != layout:
                layout = await self._stored.swap(queue, layout, wanted)
            if layout.proposed:
                layout = await self.finish(queue, layout)
        self._layouts.learn(queue, layout)
        return layout

    async def lay_out_topic(self, topic: Stream, parts: int) -> Layout:
        """Give a topic its parts, if it was not used yet. Returns its layout then."""
        layout = await self._stored.swap(topic, WHOLE, layout_of_topic(parts))
        self._layouts.learn(topic, layout)
        return layout

    async def finish(self, queue: Stream, layout: Layout) -> Layout:
        """Complete the proposed change. No producer uses the new layout before all old parts are sealed."""
        if layout.current.number:
            await asyncio.gather(*(self._stored.seal(part) for part in parts_of(queue, layout.current)))
        elif not layout.sealed:
            sealed = msgspec.structs.replace(layout, sealed=True)
            layout = await self._stored.swap(queue, layout, sealed)
            if layout != sealed:
                return layout  # another process was first: the caller goes on with its layout
        coming = parts_of(queue, layout.next)
        await self.follow_pause(queue, coming)
        now_us = (await self._store.schedules([queue])).now_us
        adopted = await self._stored.swap(queue, layout, layout.with_adoption(now_us))
        # A process that paused or resumed the queue meanwhile may not know these parts.
        await self.follow_pause(queue, coming)
        self._layouts.learn(queue, adopted)
        return adopted

    async def finish_or_repair(self, queue: Stream, layout: Layout) -> Layout:
        """Complete the proposed change of a queue with a sealed part. If nothing is proposed, a failover lost
        the proposal before it was copied. Then a new generation is made as well."""
        if not layout.proposed:
            parts = await self._parts_after(queue, layout)
            wanted = msgspec.structs.replace(layout, proposed=parts)
            layout = await self._stored.swap(queue, layout, wanted)
        number = layout.current.number
        while layout.proposed and layout.current.number == number:
            layout = await self.finish(queue, layout)
        return layout

    async def _parts_after(self, queue: Stream, layout: Layout) -> int:
        """The number of parts for the new generation: that of the lost generation, if it was used; else the
        current number."""
        lost = Generation(layout.current.number + 1, PARTS_MOST)
        used = set(await self._store.streams())
        indices = [index for index, part in enumerate(parts_of(queue, lost)) if part in used]
        return max(indices) + 1 if indices else layout.current.parts

    async def follow_pause(self, stream: Stream, parts: list[Stream]) -> None:
        """Pause or resume these parts, as the stream is. It checks again after each change, since another
        process may have paused or resumed the stream."""
        while True:
            paused, *others = await asyncio.gather(*map(self._is_paused, [stream, *parts]))
            differing = [part for part, as_it_is in zip(parts, others, strict=True) if as_it_is != paused]
            if not differing:
                return
            await asyncio.gather(*(self._store.pause(part, paused=paused) for part in differing))

    async def _is_paused(self, stream: Stream) -> bool:
        return (await self._store.counts(stream)).paused


class Declarations:
    """The number of parts that the code declares for a stream. It has an effect only before the first use."""

    def __init__(self, store: Store, splitting: Splitting) -> None:
        self._store = store
        self._splitting = splitting
        self.parts: dict[Stream, int] = {}

    async def apply(self, stream: Stream, layout: Layout) -> Layout:
        """Give a stream the declared parts at its first use. For any other stream the stored layout counts,
        and a difference is logged once."""
        wanted = self.parts.get(stream)
        if wanted is None or layout.current.parts == wanted:
            return layout
        if stream.kind == "topic":
            layout = await self._splitting.lay_out_topic(stream, wanted) if layout == WHOLE else layout
        elif layout.proposed == wanted or await self._is_unused(stream, layout):
            # If it is proposed already, another process is making this change now.
            layout = await self._splitting.split(stream, wanted)
        if layout.current.parts != wanted:
            log.warning(
                "%s %r is declared with %d partitions and has %d: what is stored counts; %s",
                stream.kind,
                stream.name,
                wanted,
                layout.current.parts,
                "it was fixed when the topic was made"
                if stream.kind == "topic"
                else "`headrace split` changes it",
            )
        return layout

    async def _is_unused(self, queue: Stream, layout: Layout) -> bool:
        return layout.whole and not layout.proposed and queue not in await self._store.streams()


def _check_room(stream: Stream, layout: Layout, parts: int) -> None:
    if layout.current.parts != parts and layout.parts + parts > PARTS_KEPT_MOST:
        raise ConfigurationError(
            f"{stream.name!r} has {layout.parts} parts of this layout and of those before it, and may have"
            f" {PARTS_KEPT_MOST} in all: those before are forgotten when they are empty and a week old"
        )
