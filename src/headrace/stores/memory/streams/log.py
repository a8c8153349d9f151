"""The log of a topic: its events by number, without a gap, trimmed at the front."""

from __future__ import annotations

from bisect import bisect_left

import msgspec

from headrace.core.messages.message import Message
from headrace.core.topics.topic import Start, unknown_event


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """The log and all groups share one object, so that many groups do not multiply the bytes."""

    number: int
    message: Message
    at_us: int
    expires_us: int


class TopicLog:
    """A dictionary by number. Events leave one by one at the front, and any number is found at once. This
    also serves the binary search for a time."""

    def __init__(self) -> None:
        self.first = 1
        self.last = 0
        self._events: dict[int, StoredEvent] = {}
        self._numbers: dict[str, int] = {}  # by id, for groups and readers that start at an event

    def __len__(self) -> int:
        return self.last - self.first + 1

    def add(self, message: Message, expires_us: int, now_us: int) -> None:
        # Never before the previous event, even when the clock was set back: the search needs sorted times.
        at_us = max(now_us, self.last_us)
        self.last += 1
        self._events[self.last] = StoredEvent(self.last, message, at_us, expires_us)
        self._numbers[message.id] = self.last

    def get(self, id: str) -> StoredEvent | None:
        number = self._numbers.get(id)
        return None if number is None else self._events[number]

    def __getitem__(self, number: int) -> StoredEvent:
        return self._events[number]

    def after(self, position: int) -> StoredEvent | None:
        """The first remaining event after a position."""
        return self._events.get(max(position + 1, self.first))

    def some_after(self, position: int, limit: int) -> list[StoredEvent]:
        first = max(position + 1, self.first)
        return [self._events[number] for number in range(first, min(first + limit, self.last + 1))]

    def lag(self, position: int) -> int:
        """How many events there are after a position."""
        return max(self.last - max(position, self.first - 1), 0)

    @property
    def first_us(self) -> int:
        """When the first remaining event was written; 0: there is none."""
        return self._events[self.first].at_us if self._events else 0

    @property
    def last_us(self) -> int:
        return self._events[self.last].at_us if self._events else 0

    def position(self, start: Start) -> int:
        """The position after which reading begins, for this start."""
        match start.at:
            case "new":
                return self.last
            case "beginning":
                return self.first - 1
            case "event":
                return self._number(start.event) - 1
            case "time":
                return self.before(start.time_us)

    def before(self, time_us: int) -> int:
        """The number of the last event that was written before a time."""
        numbers = range(self.first, self.last + 1)
        return self.first - 1 + bisect_left(numbers, time_us, key=lambda number: self._events[number].at_us)

    def trim(self, up_to: int, limit: int) -> int:
        """Delete at most `limit` events up to a number; returns how many."""
        trimmed = min(up_to - self.first + 1, limit, len(self))
        for number in range(self.first, self.first + trimmed):
            id = self._events.pop(number).message.id
            if self._numbers.get(id) == number:
                del self._numbers[id]
        self.first += max(trimmed, 0)
        return max(trimmed, 0)

    def _number(self, id: str) -> int:
        number = self._numbers.get(id)
        if number is None:
            raise unknown_event(id)
        return number
