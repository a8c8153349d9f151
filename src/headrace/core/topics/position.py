"""How far a topic was read: a number for each of its parts. A store knows single logs, with one number."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .topic import LogEntry


class Position(msgspec.Struct, frozen=True):
    """The number of the last event that was read in each part. A part that is not named is read from its
    beginning. A topic without parts has one log, under its own name."""

    numbers: Mapping[str, int] = {}

    @property
    def total(self) -> int:
        """How many events are at or before it, in all parts together."""
        return sum(self.numbers.values())

    def number_in(self, part: str) -> int:
        return self.numbers.get(part, 0)


class TopicReading(msgspec.Struct, frozen=True):
    """Events that were read, the position to go on after, and the store's clock when they were read. `parts`
    has the log of each event, in the order of the events: event numbers count within that log."""

    entries: tuple[LogEntry, ...]
    position: Position
    parts: tuple[str, ...] = ()
    now_us: int = 0

    def after(self, count: int) -> Position:
        """The position of a reader that takes only the first `count` events."""
        left = list(zip(self.parts[count:], self.entries[count:], strict=True))
        # Backwards, so that the first event that is left in each part decides.
        begun = {part: entry.number - 1 for part, entry in reversed(left)}
        return Position({**self.position.numbers, **begun})
