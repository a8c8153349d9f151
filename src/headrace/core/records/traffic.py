"""The part of the contract that counts what was done, minute by minute, for plots.

It is a help for people, not a promise: a count may be missing after a crash, and costs next to nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import msgspec

from headrace.core.messages.message import Stream

#: Minutes for which counts are kept.
KEPT_MINUTES: Final = 120

#: Microseconds in a minute.
MINUTE: Final = 60_000_000


class TrafficCount(msgspec.Struct, frozen=True):
    """How many messages of a stream were done, failed (some of them to be tried again) and died."""

    stream: Stream
    done: int = 0
    failed: int = 0
    dead: int = 0


class TrafficRecord(msgspec.Struct, frozen=True):
    """The counts of one stream for each of the last minutes, the latest last; the latest is not over yet."""

    stream: Stream
    done: tuple[int, ...]
    failed: tuple[int, ...]
    dead: tuple[int, ...]


class Counting(ABC):
    """Two verbs."""

    @abstractmethod
    async def count_traffic(self, tallies: Sequence[TrafficCount]) -> None:
        """Add to the counts of the current minute, on the store's clock. A repeat counts twice, so whoever
        does not hear an answer lets it be."""

    @abstractmethod
    async def traffic(self, minutes: int) -> list[TrafficRecord]:
        """The counts of every stream that has any within the last so many minutes, at most `KEPT_MINUTES`."""
