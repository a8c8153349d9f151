"""Measures how long commits take. This decides whether the event loop may wait for one."""

from __future__ import annotations

from typing import Final

#: Up to this average, in seconds, commits are short. Above it, the way through the writer's thread costs
#: little in comparison, and the event loop would be blocked for too long.
SHORT: Final = 0.001

#: The share of the newest commit in the average. One of 50 ms keeps the next thirty off the event loop.
SHARE: Final = 0.125

#: Seconds that are assumed before the first commit. The first twenty commits correct this.
UNKNOWN: Final = 0.01


class CommitTimes:
    """The moving average of transactions with one message that wait for the disk."""

    def __init__(self) -> None:
        self._average = UNKNOWN

    @property
    def are_short(self) -> bool:
        return self._average < SHORT

    def add(self, seconds: float) -> None:
        self._average += (seconds - self._average) * SHARE
