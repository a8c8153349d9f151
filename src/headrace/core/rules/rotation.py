"""Looking at a few of many, in turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

#: So many are looked at every time; of more, a few in turns. What looks make sure of is announced as well.
FEW, IN_TURN = 8, 4


class Rotation(Generic[T]):
    def __init__(self) -> None:
        self._next = 0

    def some(self, items: Sequence[T]) -> list[T]:
        """All of a few; else those whose turn it is."""
        if len(items) <= FEW:
            return list(items)
        first = self._next % len(items)
        self._next = first + IN_TURN
        return [*items[first:], *items[:first]][:IN_TURN]
