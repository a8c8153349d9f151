"""Clocks: the one that stores and loops use, one that tests can move, and `ClockWatch`, which notices when a
clock was set."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

#: Microseconds in a second; the unit of every time that is stored.
SECOND = 1_000_000

#: A clock counts as set when it differs from the other by more than this, plus this share of the elapsed
#: time.
STEP_LEAST_US, STEP_SHARE = SECOND, 0.001


class TimeSource(Protocol):
    """Wall time in microseconds since 1970, as the store counts it."""

    def now_us(self) -> int: ...

    def elapsed_us(self) -> int:
        """Microseconds since some moment, on a clock that cannot be set."""


class SystemClock:
    """The machine's own wall clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def elapsed_us(self) -> int:
        return _elapsed_ns() // 1000


class AppClock:
    """The clock of an app, which all of its parts share. A test makes it follow another one.

    `now_us` and `elapsed_us` are attributes, not methods that pass the call on, for speed: every job that is
    enqueued reads the clock.
    """

    __slots__ = ("elapsed_us", "now_us")

    def __init__(self, clock: TimeSource) -> None:
        self.follow(clock)

    def follow(self, clock: TimeSource) -> None:
        """Show the time of `clock` from now on."""
        self.now_us: Callable[[], int] = clock.now_us
        self.elapsed_us: Callable[[], int] = clock.elapsed_us


class MovableClock:
    """The machine's clock plus an offset that a test changes: `advance` as if time had passed, `step` as if
    the clock had been set."""

    def __init__(self) -> None:
        self.offset_us: int = 0
        self._stepped_us = 0

    def now_us(self) -> int:
        return time.time_ns() // 1000 + self.offset_us

    def elapsed_us(self) -> int:
        return _elapsed_ns() // 1000 + self.offset_us - self._stepped_us

    def advance(self, seconds: float) -> None:
        self.advance_us(round(seconds * SECOND))

    def advance_us(self, us: int) -> None:
        self.offset_us += us

    def step(self, seconds: float) -> None:
        self._stepped_us += round(seconds * SECOND)
        self.offset_us += round(seconds * SECOND)


class ClockWatch:
    """Compares a clock that can be set with one that cannot, to notice when the first was set."""

    def __init__(self, elapsed_us: Callable[[], int]) -> None:
        self.elapsed_us = elapsed_us
        self._last: tuple[int, int, int] | None = None  # the reading, and when it was asked for and answered

    def step_us(self, now_us: int, asked_us: int) -> int:
        """How far the clock was set since the last reading; below 0: back. `asked_us` is when this reading
        was asked for, on the other clock: a late answer is no step."""
        answered_us = self.elapsed_us()
        last, self._last = self._last, (now_us, asked_us, answered_us)
        if last is None:
            return 0
        last_us, last_asked_us, last_answered_us = last
        most_us, least_us = answered_us - last_asked_us, asked_us - last_answered_us
        tolerance_us = STEP_LEAST_US + most_us * STEP_SHARE
        if not least_us - tolerance_us <= now_us - last_us <= most_us + tolerance_us:
            return now_us - last_us - (answered_us - last_answered_us)
        return 0


def _elapsed_ns() -> int:
    """A clock that also counts the sleep of the machine, where the system has one."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boot is None else time.clock_gettime_ns(boot)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))


def datetime_of(us: int) -> datetime:
    """A stored time as an aware datetime; the earliest or latest datetime for a time out of its range."""
    try:
        return _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return _LATEST if us > 0 else _EARLIEST


def microseconds(seconds: float) -> int:
    """Seconds as whole microseconds."""
    return round(seconds * SECOND)
