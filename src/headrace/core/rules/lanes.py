"""Decides for each claim which stream and which priority come first, whether child work does, and how many
messages have constraints.

`turn` is the number of the claim: each process counts its claims."""

from __future__ import annotations

from typing import Final

#: One claim in this many takes the priorities from the bottom, so that none starves.
BOTTOM_TURN: Final = 10


def first_of(streams: int, turn: int) -> int:
    """The index of the stream that comes first, of `streams` streams."""
    # Claims that start from the bottom must not all begin with the same stream.
    return (turn + turn // BOTTOM_TURN) % streams if streams else 0


def is_from_bottom(turn: int) -> bool:
    """Whether low priority comes first."""
    return turn % BOTTOM_TURN == 0


def is_child_work_first(turn: int) -> bool:
    return turn % 2 == 1


def share_of_constrained(limit: int, turn: int) -> int:
    """How many of `limit` messages of a lane have constraints when both kinds wait: half. They take turns at
    the odd one, so that neither kind starves where slots become free one by one."""
    # Claims that start from the bottom must not all give it to the same kind.
    return (limit + (turn + turn // BOTTOM_TURN) % 2) // 2
