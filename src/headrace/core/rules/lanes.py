"""Whose turn it is in a claim: which stream comes first, which priority, and whether child work does.

A turn is the number of the claim, as the process counts its claims."""

from __future__ import annotations

from typing import Final

#: Every so many claims take the priorities from the bottom, so that none starves.
BOTTOM_TURN: Final = 10


def first_of(streams: int, turn: int) -> int:
    """The index of the stream that is asked first, of so many."""
    # Turns that start from the bottom must not all begin with the same stream.
    return (turn + turn // BOTTOM_TURN) % streams if streams else 0


def is_from_bottom(turn: int) -> bool:
    """Whether low priority is asked first."""
    return turn % BOTTOM_TURN == 0


def is_child_work_first(turn: int) -> bool:
    return turn % 2 == 1
