"""Forgets generations of parts that were sealed long ago and are empty."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Stream
from headrace.core.rules.layout import Layout, generation_of, parts_of, whole_stream
from headrace.core.runtime.clock import SECOND
from headrace.core.store import Store

from .layouts import KnownLayouts

#: Microseconds after which a sealed generation may be forgotten. No process trusts a layout for so long.
KEPT_FOR: Final = 7 * 24 * 3600 * SECOND

#: Seconds between two checks.
EVERY: Final = 300.0


class Forgetting:
    """Removes old generations from layouts, and their parts from the store."""

    def __init__(self, store: Store, layouts: KnownLayouts) -> None:
        self._store = store
        self._layouts = layouts
        self._looked_at: float | None = None
        self._strays: dict[Stream, set[Stream]] = {}  # by stream, as the last check found them

    async def forget_what_is_over(self) -> None:
        """Forget old generations of the queues that this process uses."""
        now = time.monotonic()
        if self._looked_at is not None and now - self._looked_at < EVERY:
            return
        self._looked_at = now
        for stream in self._layouts.known() if self._layouts.any_split else ():
            if stream.kind != "queue":
                continue
            with contextlib.suppress(BackendUnavailable):  # it can wait; and some users lack the rights
                await self._look_at(stream)

    async def _look_at(self, stream: Stream) -> None:
        plan = await self._layouts.plan(stream)
        if plan is None:
            return
        seal = self._layouts.stored.seal
        now_us = (await self._store.schedules([stream])).now_us
        for generation in plan.layout.generations[:-1]:
            if not generation.number or generation.sealed_us + KEPT_FOR >= now_us:
                # A failover may have lost the seal.
                await asyncio.gather(*map(seal, parts_of(stream, generation)))
            elif await self._is_empty(parts_of(stream, generation)):
                await self._forget(stream, generation.number)
        await self._drop_strays(stream, plan.layout)

    async def _forget(self, stream: Stream, number: int) -> None:
        stored = await self._layouts.stored.read(stream)
        layout = await self._layouts.stored.swap(stream, stored, stored.without(number))
        self._layouts.learn(stream, layout)

    async def _drop_strays(self, stream: Stream, layout: Layout) -> None:
        """Remove parts from the store that the last check had already found forgotten. A reader that still
        waited there at that time would have created them again."""
        kept = {each.number for each in layout.generations}
        parts = [part for part in await self._store.streams() if whole_stream(part) == stream]
        # A generation after the current one may belong to a change that was lost, and may come back.
        numbers = {part: number for part in parts if (number := generation_of(part)) < layout.current.number}
        strays = {part for part, number in numbers.items() if number not in kept | {0}}
        for part in strays & self._strays.get(stream, set()):
            await self._store.remove_stream(part)  # unless something is left in it
        self._strays[stream] = strays

    async def _is_empty(self, parts: list[Stream]) -> bool:
        counts = await asyncio.gather(*map(self._store.counts, parts))
        return not any(
            each.queued or each.running or each.scheduled or each.retrying or each.dead for each in counts
        )
