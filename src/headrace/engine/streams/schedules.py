"""The verbs of schedules. They belong to the stream itself: its parts have none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.records.answers import Wanted
from headrace.core.schedules.schedule_record import ScheduleSwap, Swapped, Timetable

from .layouts import Routed
from .routing import spread


class ScheduleVerbs(Routed):
    async def schedules(self, streams: Sequence[Stream]) -> Timetable:
        return await self.store.schedules(streams)

    async def swap_schedules(self, swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
        for stream in {swap.stream for swap in swaps if swap.expected is None}:
            await self._layouts.plan(stream)
        return await self.store.swap_schedules(await asyncio.gather(*map(self._unhindered, swaps)))

    async def _unhindered(self, swap: ScheduleSwap) -> ScheduleSwap:
        """The swap without messages that a part knows or whose key a part holds. The store checks only the
        stream itself when it fires."""
        stream, messages = swap.stream, swap.messages
        plan = await self._layouts.recent_plan(stream) if messages else None
        if plan is None:
            return swap
        everyone = range(len(messages))
        asking: list[tuple[Stream, list[int]]] = []
        for generation in plan.layout.generations:
            if generation.number:
                asking += spread(stream, generation, messages, everyone).items()
        found = await asyncio.gather(
            *(
                self.store.holders(part, [Wanted.by(messages[index]) for index in some])
                for part, some in asking
            )
        )
        held = {
            index
            for (_, some), holders in zip(asking, found, strict=True)
            for index, holder in zip(some, holders, strict=True)
            if holder is not None
        }
        left = [messages[index] for index in everyone if index not in held]
        return msgspec.structs.replace(swap, messages=left)
