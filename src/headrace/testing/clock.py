"""The clock of a test: it goes on by itself, and further when it is told to."""

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
    """A store that tells its time by the clock."""

    def brace(self, us: int) -> None:
        """The clock is about to be moved by this much."""

    def stir(self) -> None:
        """The clock was moved: something may be due."""


class Clock(MovableClock):
    """The machine's time plus what a test added: for delays, retries, expiry and unique windows.

    It is the time of the store and of nothing else; `datetime.now()` is not moved.
    """

    def __init__(self) -> None:
        super().__init__()
        self._followers: list[Follower] = []

    def now(self) -> datetime:
        """The time it shows, as an aware datetime."""
        return datetime.fromtimestamp(self.now_us() / SECOND, UTC)

    def advance(self, seconds: Duration) -> None:
        """Move it forward. What is due then is run by a worker that is running, or by the next `drain()`."""
        self.advance_us(microseconds(checked_seconds("the time to advance", seconds)))

    def move_to(self, moment: datetime) -> None:
        """Move it forward to a time."""
        if moment.tzinfo is None:
            raise ConfigurationError(f"{moment} has no time zone: use an aware datetime")
        us = round(moment.timestamp() * SECOND) - self.now_us()
        if us < 0:
            raise ConfigurationError(f"the clock shows {self.now()}; it cannot be moved back to {moment}")
        self.advance_us(us)

    def advance_us(self, us: int) -> None:
        """As `advance`, in microseconds."""
        for follower in self._followers:
            follower.brace(us)
        super().advance_us(us)
        for follower in self._followers:
            follower.stir()

    @contextmanager
    def _followed_by(self, follower: Follower) -> Iterator[None]:
        """Tell `follower` of every move meanwhile."""
        self._followers.append(follower)
        try:
            yield
        finally:
            self._followers.remove(follower)
