"""Time as a parameter: the clock that stores and loops are given, and one that tests can move."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

#: Microseconds in a second; the unit of every time that is stored.
SECOND = 1_000_000


class Clock(Protocol):
    """Wall time in microseconds since 1970, as the store counts it."""

    def now_us(self) -> int: ...


class SystemClock:
    """The machine's own wall clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000


class MovableClock:
    """The machine's clock plus an offset that a test advances."""

    def __init__(self) -> None:
        self.offset_us = 0

    def now_us(self) -> int:
        return time.time_ns() // 1000 + self.offset_us

    def advance(self, seconds: float) -> None:
        self.offset_us += round(seconds * SECOND)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))


def datetime_of(us: int) -> datetime:
    """A stored time as an aware datetime; the first or last there is for one that no calendar has."""
    try:
        return _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return _LATEST if us > 0 else _EARLIEST


def microseconds(seconds: float) -> int:
    """Seconds as whole microseconds."""
    return round(seconds * SECOND)
