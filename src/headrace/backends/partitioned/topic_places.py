"""Where a reader or a group stands in the parts of a topic, and what the parts give it to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import islice

import msgspec

from headrace.core.topics import LogEntry, Places, Position, Reading, Start, number_in_one_log


def places_of(position: Position, parts: Sequence[str]) -> dict[str, int]:
    """The number in each part. A plain one is from before the topic had parts, and any event."""
    numbers = position.numbers if isinstance(position, Places) else {}
    return {part: numbers.get(part, 0) for part in parts}


def starts_in_parts(start: Start, parts: Sequence[str], found: Mapping[str, LogEntry]) -> dict[str, Start]:
    """What a start means in each part. `found`: where the event is with which it begins. In the other parts
    what was written at the same time or later belongs to it."""
    if start.at != "event":
        return dict.fromkeys(parts, start)
    since = Start("time", time_us=min(entry.at_us for entry in found.values()))
    return {part: start if part in found else since for part in parts}


def merged_reading(readings: Mapping[str, Reading], limit: int) -> Reading:
    """One page of what the parts gave, by time. A part of which less is taken goes on behind that."""
    begun = {part: number_in_one_log(reading.after(0)) for part, reading in readings.items()}
    lists = [_named(part, reading) for part, reading in readings.items()]
    entries = tuple(islice(merge(*lists, key=lambda entry: entry.at_us), limit))
    taken = {entry.part: entry.number for entry in entries}
    now_us = max((reading.now_us for reading in readings.values()), default=0)
    return Reading(entries, Places({**begun, **taken}), now_us)


def _named(part: str, reading: Reading) -> list[LogEntry]:
    return [msgspec.structs.replace(entry, part=part) for entry in reading.entries]
