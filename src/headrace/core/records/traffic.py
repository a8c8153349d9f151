"""The part of the contract that counts processed messages for each minute, for plots.

The counts are for people and are not exact: one may be missing after a crash. They cost next to nothing.
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
    """How many messages of a stream were done, failed (some of them are retried) and died."""

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
    """The verbs that write and read the counts."""

    @abstractmethod
    async def count_traffic(self, tallies: Sequence[TrafficCount]) -> None:
        """Add to the counts of the current minute, on the store's clock. A repeat counts twice, so a caller
        that gets no answer does not repeat the call."""

    @abstractmethod
    async def traffic(self, minutes: int) -> list[TrafficRecord]:
        """The counts of every stream that has any in the last `minutes` minutes, at most `KEPT_MINUTES`."""
