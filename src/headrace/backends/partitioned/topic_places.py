"""Where a reader or a group stands in the parts of a topic, and what the parts give it to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import islice

import msgspec

from headrace.core.topics import (
    BEGINNING,
    LogEntry,
    Places,
    Position,
    Reading,
    Start,
    number_in_one_log,
)

#: The names of the parts of each generation, the oldest generation first.
Ranks = Sequence[Sequence[str]]


def places_of(position: Position, ranks: Ranks) -> dict[str, int]:
    """The number in each part. A plain one is from before the topic was split: it belongs to the whole, and
    what came after it to the parts."""
    if isinstance(position, int):
        position = Places({ranks[0][0]: position})
    return {part: position.numbers.get(part, 0) for rank in ranks for part in rank}


def starts_in_parts(start: Start, ranks: Ranks, found: Mapping[str, LogEntry]) -> dict[str, Start]:
    """What a start means in each part. `found`: where the event is with which it begins.

    In the other parts of the same generation what was written at the same time or later belongs to it. Those
    of later generations come behind it as a whole, whatever the clocks of their servers say.
    """
    if start.at != "event":
        return {part: start for rank in ranks for part in rank}
    since = Start("time", time_us=min(entry.at_us for entry in found.values()))
    starts: dict[str, Start] = {}
    passed = False
    for rank in ranks:
        starts |= {part: start if part in found else BEGINNING if passed else since for part in rank}
        passed = passed or any(part in found for part in rank)
    return starts


def merged_reading(
    places: Mapping[str, int], readings: Mapping[str, Reading], ranks: Ranks, limit: int
) -> Reading:
    """A page of the oldest generation that has something to read, by time; of the others nothing is taken.

    So whoever reads gets the events of a key in their order: a later generation has only later ones. A part
    that was not read keeps its place.
    """
    begun = {part: number_in_one_log(reading.after(0)) for part, reading in readings.items()}
    entries = next(filter(None, (_page(rank, readings, limit) for rank in ranks)), ())
    taken = {entry.part: entry.number for entry in entries}
    now_us = max((reading.now_us for reading in readings.values()), default=0)
    return Reading(entries, Places({**places, **begun, **taken}), now_us)


def _page(rank: Sequence[str], readings: Mapping[str, Reading], limit: int) -> tuple[LogEntry, ...]:
    lists = [_named(part, readings[part]) for part in rank if part in readings]
    return tuple(islice(merge(*lists, key=lambda entry: entry.at_us), limit))


def _named(part: str, reading: Reading) -> list[LogEntry]:
    return [msgspec.structs.replace(entry, part=part) for entry in reading.entries]
