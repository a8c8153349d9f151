"""Reads a topic with parts, in all of them at once, and waits for any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic

from headrace.core.backend import Backend
from headrace.core.message import Stream
from headrace.core.topics import Reading

from .topic_places import merged_reading, places_of


class TopicReader:
    """For all consumers of a process. Each waits in every part under a name of its own."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self._woken: set[str] = set()
        self._waiting: dict[str, list[str]] = {}

    def wake(self, consumer: str) -> None:
        self._woken.add(consumer)
        for name in self._waiting.get(consumer, ()):
            self._inner.wake(name)

    async def read(self, places: Mapping[str, int], *, consumer: str, limit: int, wait: float) -> Reading:
        until = monotonic() + wait
        while True:
            left = 0.0 if consumer in self._woken else max(0.0, until - monotonic())
            reading = await self._look(places, consumer, limit, left)
            if self._was_woken(consumer) or reading.entries or until <= monotonic():
                return reading
            places = places_of(reading.position, list(places))

    def _was_woken(self, consumer: str) -> bool:
        woken = consumer in self._woken
        self._woken.discard(consumer)
        return woken

    async def _look(self, places: Mapping[str, int], consumer: str, limit: int, wait: float) -> Reading:
        """What is behind the places; as soon as one part has something, or somebody wakes us, all answer."""
        names = self._waiting[consumer] = [f"{consumer}@{part}" for part in places]
        looks = [
            asyncio.ensure_future(
                self._inner.read(Stream("topic", part), place, consumer=name, limit=limit, wait=wait)
            )
            for (part, place), name in zip(places.items(), names, strict=True)
        ]
        try:
            await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
            for name, look in zip(names, looks, strict=True):
                if wait and not look.done():
                    self._inner.wake(name)
            return merged_reading(dict(zip(places, await asyncio.gather(*looks), strict=True)), limit)
        finally:
            self._waiting.pop(consumer, None)
            for look in looks:
                look.cancel()
            await asyncio.gather(*looks, return_exceptions=True)
