"""Reads a topic that is split, in all its parts at once, and waits for any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import Final

from headrace.core.backend import Backend
from headrace.core.message import Stream
from headrace.core.topics import Reading

from .topic_places import Ranks, merged_reading, places_of

#: Seconds after which a reader that waits looks whether there are new parts to wait for.
BLOCK: Final = 2.0


class TopicReader:
    """For all consumers of a process. Each waits in every part under a name of its own."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self._woken: set[str] = set()
        self._waiting: dict[str, list[str]] = {}
        #: Sealed parts for which nothing waits any more, so that their logs are as long as they will be, and
        #: the number at their end.
        self._complete: set[str] = set()
        self._ends: dict[str, int] = {}

    def wake(self, consumer: str) -> None:
        self._woken.add(consumer)
        for name in self._waiting.get(consumer, ()):
            self._inner.wake(name)

    async def read(
        self,
        ranks_now: Callable[[], Awaitable[Ranks]],
        places: Mapping[str, int],
        *,
        consumer: str,
        limit: int,
        wait: float,
    ) -> Reading:
        until = monotonic() + wait
        while True:
            ranks = await ranks_now()
            left = 0.0 if consumer in self._woken else max(0.0, until - monotonic())
            reading = await self._pages(ranks, places, consumer, limit, min(left, BLOCK))
            if not reading.entries:
                places = places_of(reading.position, ranks)
                await self._note_ends(ranks[:-1], places)
            if self._was_woken(consumer) or reading.entries or until <= monotonic():
                return reading

    async def _pages(
        self, ranks: Ranks, places: Mapping[str, int], consumer: str, limit: int, wait: float
    ) -> Reading:
        """As much as there is: behind the end of a generation comes the next one."""
        parts = self._open_parts(ranks, places)
        readings = await self._look(parts, places, consumer, limit, wait)
        reading = merged_reading(places, dict(zip(parts, readings, strict=True)), ranks, limit)
        left = limit - len(reading.entries)
        if not left or not reading.entries or set(parts) <= set(ranks[-1]):
            return reading
        rest = await self._pages(ranks, places_of(reading.position, ranks), consumer, left, 0.0)
        return Reading(reading.entries + rest.entries, rest.position, rest.now_us)

    def _was_woken(self, consumer: str) -> bool:
        woken = consumer in self._woken
        self._woken.discard(consumer)
        return woken

    def _open_parts(self, ranks: Ranks, places: Mapping[str, int]) -> list[str]:
        """Those behind whose place something may come."""
        parts = [part for rank in ranks for part in rank]
        return [part for part in parts if part not in self._ends or places.get(part, 0) < self._ends[part]]

    async def _note_ends(self, sealed: Ranks, places: Mapping[str, int]) -> None:
        """Nothing was behind these places. Of a sealed part for which nothing waits that stays so."""
        for part in [part for rank in sealed for part in rank if part not in self._ends]:
            if part in self._complete:
                self._ends[part] = places[part]
            elif not (await self._inner.counts(Stream("topic", part))).scheduled:
                self._complete.add(part)

    async def _look(
        self, parts: Sequence[str], places: Mapping[str, int], consumer: str, limit: int, wait: float
    ) -> list[Reading]:
        """What is behind the places; as soon as one part has something, or somebody wakes us, all answer."""
        names = self._waiting[consumer] = [f"{consumer}@{part}" for part in parts]
        looks = [
            asyncio.ensure_future(
                self._inner.read(
                    Stream("topic", part), places.get(part, 0), consumer=name, limit=limit, wait=wait
                )
            )
            for part, name in zip(parts, names, strict=True)
        ]
        try:
            await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
            for name, look in zip(names, looks, strict=True):
                if wait and not look.done():
                    self._inner.wake(name)
            return await asyncio.gather(*looks)
        finally:
            self._waiting.pop(consumer, None)
            for look in looks:
                look.cancel()
            await asyncio.gather(*looks, return_exceptions=True)
