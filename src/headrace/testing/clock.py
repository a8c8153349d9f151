"""The clock of a test: it shows the machine's time, and the test can move it forward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.clock import SECOND, MovableClock, microseconds
from headrace.core.values.durations import Duration
from headrace.core.values.durations import seconds as checked_seconds


class Follower(Protocol):
    """A store that uses the clock."""

    def before_move(self, us: int) -> None:
        """Called before the clock is moved by `us`."""

    def after_move(self) -> None:
        """Called after the clock was moved: messages may be due."""


class Clock(MovableClock):
    """The machine's time plus the time that a test added, for delays, retries, expiry and unique windows.

    It is the time of the store only; `datetime.now()` is not moved.
    """

    def __init__(self) -> None:
        super().__init__()
        self._followers: list[Follower] = []

    def now(self) -> datetime:
        """The time of this clock, as an aware datetime."""
        return datetime.fromtimestamp(self.now_us() / SECOND, UTC)

    def advance(self, seconds: Duration) -> None:
        """Move the clock forward. A running worker, or the next `drain()`, runs the jobs that are due
        then."""
        self.advance_us(microseconds(checked_seconds("the time to advance", seconds)))

    def move_to(self, moment: datetime) -> None:
        """Move the clock forward to a time."""
        if moment.tzinfo is None:
            raise ConfigurationError(f"{moment} has no time zone: use an aware datetime")
        us = round(moment.timestamp() * SECOND) - self.now_us()
        if us < 0:
            raise ConfigurationError(f"the clock shows {self.now()}; it cannot be moved back to {moment}")
        self.advance_us(us)

    def advance_us(self, us: int) -> None:
        """`advance` in microseconds."""
        for follower in self._followers:
            follower.before_move(us)
        super().advance_us(us)
        for follower in self._followers:
            follower.after_move()

    @contextmanager
    def _followed_by(self, follower: Follower) -> Iterator[None]:
        """Call `follower` for every move of the clock during this block."""
        self._followers.append(follower)
        try:
            yield
        finally:
            self._followers.remove(follower)
