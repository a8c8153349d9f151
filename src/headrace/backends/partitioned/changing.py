"""Changing the number of parts, in steps that anybody may finish whoever began them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headrace.core.backend import Backend
from headrace.core.errors import ConfigurationError
from headrace.core.layout import PARTS_KEPT_MOST, PARTS_MOST, Generation, Layout, parts_of
from headrace.core.message import Stream

from .layouts import KnownLayouts

#: Gives the parts of a topic that are to come what belongs to the topic: its rules, its groups.
Prepare = Callable[[Stream, list[Stream]], Awaitable[None]]


class Changes:
    def __init__(self, inner: Backend, layouts: KnownLayouts, prepare_topic: Prepare) -> None:
        self._inner = inner
        self._layouts = layouts
        self._prepare_topic = prepare_topic

    async def split(self, stream: Stream, parts: int) -> Layout:
        """Have so many parts. What another has proposed is carried out first."""
        while True:
            # What this process knows of a layout is stored first if it was lost: numbers are given once.
            _check_room(stream, await self._layouts.refresh(stream), parts)
            layout = await self._inner.propose(stream, parts)
            if not layout.proposed:
                self._layouts.learn(stream, layout)
                return layout
            await self.finish(stream, layout)

    async def finish(self, stream: Stream, layout: Layout) -> Layout:
        """Carry out what is proposed. Nobody appends by the new layout before all of the old is sealed."""
        await asyncio.gather(*map(self._inner.seal, parts_of(stream, layout.current)))
        coming = parts_of(stream, layout.next)
        if stream.kind == "topic":
            await self._prepare_topic(stream, coming)
        await self.follow_pause(stream, coming)
        adopted = await self._inner.adopt(stream, layout)
        # Who paused or resumed the stream meanwhile may not have known of these.
        await self.follow_pause(stream, coming)
        self._layouts.learn(stream, adopted)
        return adopted

    async def finish_or_repair(self, stream: Stream, layout: Layout) -> Layout:
        """Carry out what is proposed. A part is sealed: if nothing is proposed that was lost with a server, a
        failover having taken back what was not copied yet, and a new generation is made all the same."""
        if not layout.proposed:
            parts = await self._parts_after(stream, layout)
            layout = await self._inner.restore(stream, Layout(layout.generations, parts))
        return await self.finish(stream, layout) if layout.proposed else layout

    async def _parts_after(self, stream: Stream, layout: Layout) -> int:
        """As many as the generation that was lost had, if anybody has used it; else as many as now."""
        lost = Generation(layout.current.number + 1, PARTS_MOST)
        used = set(await self._inner.streams())
        indices = [index for index, part in enumerate(parts_of(stream, lost)) if part in used]
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
