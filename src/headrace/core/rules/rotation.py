"""Chooses a few of many items for each look, in turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

#: Up to FEW items are all chosen each time; of more, IN_TURN in turns. That is enough because changes are
#: also announced: a look only finds what an announcement missed.
FEW, IN_TURN = 8, 4


class Rotation(Generic[T]):
    def __init__(self) -> None:
        self._next = 0

    def some(self, items: Sequence[T]) -> list[T]:
        """All items if they are few; else the next ones in turn."""
        if len(items) <= FEW:
            return list(items)
        first = self._next % len(items)
        self._next = first + IN_TURN
        return [*items[first:], *items[:first]][:IN_TURN]
