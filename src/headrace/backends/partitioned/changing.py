"""Changing the number of parts, in steps that anybody may finish whoever began them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headrace.core.backend import Backend
from headrace.core.layout import Layout, parts_of
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

    async def follow_pause(self, stream: Stream, parts: list[Stream]) -> None:
        """Pause these, or let them go on, as the stream is."""
        paused, *others = await asyncio.gather(*map(self._is_paused, [stream, *parts]))
        for part, as_it_is in zip(parts, others, strict=True):
            if as_it_is != paused:
                await self._inner.pause(part, paused=paused)

    async def _is_paused(self, stream: Stream) -> bool:
        return (await self._inner.counts(stream)).paused
