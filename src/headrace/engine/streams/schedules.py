"""Schedules stay with the stream itself: its parts have none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headrace.core.message import Message, Stream
from headrace.core.scheduling import ScheduleRecord, Timetable

from .layouts import Routed
from .routing import spread


class ScheduleVerbs(Routed):
    async def schedules(self, streams: Sequence[Stream]) -> Timetable:
        return await self.store.schedules(streams)

    async def establish(self, stream: Stream, names: Sequence[str]) -> None:
        await self._layouts.plan(stream)
        await self.store.establish(stream, names)

    async def add_schedule(self, stream: Stream, name: str, definition: bytes) -> ScheduleRecord:
        await self._layouts.plan(stream)
        return await self.store.add_schedule(stream, name, definition)

    async def pause_schedule(self, stream: Stream, name: str, *, paused: bool) -> bool:
        return await self.store.pause_schedule(stream, name, paused=paused)

    async def remove_schedule(self, stream: Stream, name: str) -> bool:
        return await self.store.remove_schedule(stream, name)

    async def tick(
        self,
        stream: Stream,
        name: str,
        *,
        expected_us: int,
        next_us: int,
        messages: Sequence[Message],
        timing: str | None = None,
    ) -> bool:
        return await self.store.tick(
            stream,
            name,
            expected_us=expected_us,
            next_us=next_us,
            messages=await self._unhindered(stream, messages),
            timing=timing,
        )

    async def _unhindered(self, stream: Stream, messages: Sequence[Message]) -> Sequence[Message]:
        """Without those that a part knows or whose key is held there: the step that fires looks into the
        stream itself only."""
        plan = await self._layouts.recent_plan(stream)
        if plan is None or not messages:
            return messages
        everyone = range(len(messages))
        asking: list[tuple[Stream, list[int]]] = []
        for generation in plan.layout.generations:
            if generation.number:
                asking += spread(stream, generation, messages, everyone).items()
        found = await asyncio.gather(
            *(self.store.holders(part, [messages[index] for index in some]) for part, some in asking)
        )
        held = {
            index
            for (_, some), holders in zip(asking, found, strict=True)
            for index, holder in zip(some, holders, strict=True)
            if holder is not None
        }
        return [messages[index] for index in everyone if index not in held]
