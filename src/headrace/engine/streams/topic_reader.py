"""Reads a topic with parts: reads all parts at once, and waits for any of them.

It calculates a reader's position in each part, and makes one page from the events of all parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import islice
from time import monotonic

from headrace.core.messages.message import Stream
from headrace.core.store import Store
from headrace.core.topics.position import Position, TopicReading
from headrace.core.topics.topic import LogEntry, Reading, Start


class TopicReader:
    """Reads for all consumers of a process. Each consumer waits in every part under a separate name."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._woken: set[str] = set()
        self._waiting: dict[str, list[str]] = {}

    def wake(self, consumer: str) -> None:
        self._woken.add(consumer)
        for name in self._waiting.get(consumer, ()):
            self._store.wake(name)

    async def read(
        self, places: Mapping[str, int], *, consumer: str, limit: int, wait: float
    ) -> TopicReading:
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

    async def _look(self, places: Mapping[str, int], consumer: str, limit: int, wait: float) -> TopicReading:
        """The events after the given places. All reads end when one part has events, or on `wake`."""
        names = self._waiting[consumer] = [f"{consumer}@{part}" for part in places]
        looks = [
            asyncio.ensure_future(
                self._store.read(Stream("topic", part), place, consumer=name, limit=limit, wait=wait)
            )
            for (part, place), name in zip(places.items(), names, strict=True)
        ]
        try:
            await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
            for name, look in zip(names, looks, strict=True):
                if wait and not look.done():
                    self._store.wake(name)
            return merged_reading(dict(zip(places, await asyncio.gather(*looks), strict=True)), limit)
        finally:
            self._waiting.pop(consumer, None)
            for look in looks:
                look.cancel()
            await asyncio.gather(*looks, return_exceptions=True)


def places_of(position: Position, parts: Sequence[str]) -> dict[str, int]:
    """The number of the last read event in each part."""
    return {part: position.number_in(part) for part in parts}


def starts_in_parts(start: Start, parts: Sequence[str], found: Mapping[str, LogEntry]) -> dict[str, Start]:
    """The start in each part. `found`: the place of the first event. In the other parts, events of the same
    time or later are included."""
    if start.at != "event":
        return dict.fromkeys(parts, start)
    since = Start("time", time_us=min(entry.at_us for entry in found.values()))
    return {part: start if part in found else since for part in parts}


def reading_of_one(part: str, reading: Reading) -> TopicReading:
    """The reading of a topic without parts."""
    parts = (part,) * len(reading.entries)
    return TopicReading(reading.entries, Position({part: reading.position}), parts, reading.now_us)


def merged_reading(readings: Mapping[str, Reading], limit: int) -> TopicReading:
    """One page of the readings of all parts, by time. Events that do not fit are read again later."""
    begun = {part: reading.begun_after for part, reading in readings.items()}
    lists = [[(part, entry) for entry in reading.entries] for part, reading in readings.items()]
    page = list(islice(merge(*lists, key=lambda each: each[1].at_us), limit))
    taken = {part: entry.number for part, entry in page}
    return TopicReading(
        tuple(entry for _, entry in page),
        Position({**begun, **taken}),
        tuple(part for part, _ in page),
        max((reading.now_us for reading in readings.values()), default=0),
    )
