"""How many a second, from counts that a store keeps for each minute."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from headrace.admin import Traffic

MINUTE: Final = 60.0


class Pace:
    """Knows how much of the store's current minute has passed.

    That is so on our own clock, until a minute of the store is seen to begin: its clock may be another.
    """

    def __init__(self) -> None:
        self._passed: tuple[int, ...] = ()
        self._began: float | None = None  # a minute of the store, on the monotonic clock

    def follow(self, traffic: Iterable[Traffic]) -> None:
        """See the counts as they stand now."""
        passed = total([each.done for each in traffic])[:-1]
        if self._passed and passed != self._passed:
            self._began = time.monotonic()
        self._passed = passed

    def per_second(self, counts: Sequence[int]) -> float:
        """Over the last sixty seconds: of the minute before, as much as belongs to them."""
        if len(counts) < 2:
            return 0.0
        rest = 1 - self._elapsed() / MINUTE
        return (counts[-1] + counts[-2] * rest) / MINUTE

    def _elapsed(self) -> float:
        return (time.time() if self._began is None else time.monotonic() - self._began) % MINUTE


def total(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """All together, minute by minute."""
    return tuple(map(sum, zip(*rows, strict=False)))
