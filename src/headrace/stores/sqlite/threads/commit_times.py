"""How long commits take here: that decides whether the event loop may wait for one."""

from __future__ import annotations

from typing import Final

#: Seconds on the average up to which a commit is short. Beyond that the way through the writer's thread costs
#: little in comparison, and the event loop would stand still for too long.
SHORT: Final = 0.001

#: The share of the newest commit in the average. One of 50 ms keeps the next thirty off the event loop.
SHARE: Final = 0.125

#: Seconds that are assumed before the first one: the first twenty tell.
UNKNOWN: Final = 0.01


class CommitTimes:
    """A moving average, of transactions with one message that wait for the disk."""

    def __init__(self) -> None:
        self._average = UNKNOWN

    @property
    def are_short(self) -> bool:
        return self._average < SHORT

    def add(self, seconds: float) -> None:
        self._average += (seconds - self._average) * SHARE
