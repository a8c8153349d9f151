"""Changing the number of parts of a queue, in steps that any process may finish; and of a topic, once."""

from __future__ import annotations

import asyncio

import msgspec

from headrace.core.backend import Backend
from headrace.core.errors import ConfigurationError
from headrace.core.layout import (
    PARTS_KEPT_MOST,
    PARTS_MOST,
    WHOLE,
    Generation,
    Layout,
    layout_of_topic,
    parts_of,
)
from headrace.core.message import Stream

from .layouts import KnownLayouts, seal


class Changes:
    def __init__(self, inner: Backend, layouts: KnownLayouts) -> None:
        self._inner = inner
        self._layouts = layouts

    async def split(self, queue: Stream, parts: int) -> Layout:
        """Have so many parts. What another has proposed is carried out first."""
        # What this process knows of a layout is stored first if it was lost: numbers are given once.
        layout = await self._layouts.refresh(queue)
        while layout.current.parts != parts or layout.proposed:
            _check_room(queue, layout, parts)
            wanted = layout.with_proposal(parts)
            if wanted != layout:
                layout = await self._inner.swap_layout(queue, layout, wanted)
            if layout.proposed:
                layout = await self.finish(queue, layout)
        self._layouts.learn(queue, layout)
        return layout

    async def lay_out_topic(self, topic: Stream, parts: int) -> Layout:
        """Give a topic its parts, if it was not used yet; answers what stands then."""
        layout = await self._inner.swap_layout(topic, WHOLE, layout_of_topic(parts))
        self._layouts.learn(topic, layout)
        return layout

    async def finish(self, queue: Stream, layout: Layout) -> Layout:
        """Carry out what is proposed. Nobody appends by the new layout before all of the old is sealed."""
        if layout.current.number:
            await asyncio.gather(*(seal(self._inner, part) for part in parts_of(queue, layout.current)))
        elif not layout.sealed:
            sealed = msgspec.structs.replace(layout, sealed=True)
            layout = await self._inner.swap_layout(queue, layout, sealed)
            if layout != sealed:
                return layout  # another process was first: the caller looks at what stands now
        coming = parts_of(queue, layout.next)
        await self.follow_pause(queue, coming)
        now_us = (await self._inner.schedules([queue])).now_us
        adopted = await self._inner.swap_layout(queue, layout, layout.with_adoption(now_us))
        # Who paused or resumed the queue meanwhile may not have known of these.
        await self.follow_pause(queue, coming)
        self._layouts.learn(queue, adopted)
        return adopted

    async def finish_or_repair(self, queue: Stream, layout: Layout) -> Layout:
        """Carry out what is proposed. A part is sealed: if nothing is proposed that was lost with a server, a
        failover having taken back what was not copied yet, and a new generation is made all the same."""
        if not layout.proposed:
            parts = await self._parts_after(queue, layout)
            wanted = msgspec.structs.replace(layout, proposed=parts)
            layout = await self._inner.swap_layout(queue, layout, wanted)
        number = layout.current.number
        while layout.proposed and layout.current.number == number:
            layout = await self.finish(queue, layout)
        return layout

    async def _parts_after(self, queue: Stream, layout: Layout) -> int:
        """As many as the generation that was lost had, if anybody has used it; else as many as now."""
        lost = Generation(layout.current.number + 1, PARTS_MOST)
        used = set(await self._inner.streams())
        indices = [index for index, part in enumerate(parts_of(queue, lost)) if part in used]
        return max(indices) + 1 if indices else layout.current.parts

    async def follow_pause(self, stream: Stream, parts: list[Stream]) -> None:
        """Pause these, or let them go on, as the stream is. It is looked at again after each change: somebody
        may have paused or resumed it in between."""
        while True:
            paused, *others = await asyncio.gather(*map(self._is_paused, [stream, *parts]))
            differing = [part for part, as_it_is in zip(parts, others, strict=True) if as_it_is != paused]
            if not differing:
                return
            await asyncio.gather(*(self._inner.pause(part, paused=paused) for part in differing))

    async def _is_paused(self, stream: Stream) -> bool:
        return (await self._inner.counts(stream)).paused


def _check_room(stream: Stream, layout: Layout, parts: int) -> None:
    if layout.current.parts != parts and layout.parts + parts > PARTS_KEPT_MOST:
        raise ConfigurationError(
            f"{stream.name!r} has {layout.parts} parts of this layout and of those before it, and may have"
            f" {PARTS_KEPT_MOST} in all: those before are forgotten when they are empty and a week old"
        )
