"""What a worker asks for when it claims."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.rules.lanes import first_of, is_from_bottom

from .lanes import BOTTOM_UP, TOP_DOWN


class ClaimQuery(msgspec.Struct, frozen=True):
    """`turn` counts the claims of this process; `wants_order` says which groups it wants to be ordered."""

    streams: Sequence[Stream]
    consumer: str
    limit: int
    suspects: int
    turn: int
    children: int = sys.maxsize
    wants_order: Mapping[Stream, bool] = {}
    constrained: int = sys.maxsize

    @property
    def streams_in_turn(self) -> list[Stream]:
        """The streams take turns: the first of this claim is the last of the next."""
        first = first_of(len(self.streams), self.turn)
        return [*self.streams[first:], *self.streams[:first]]

    @property
    def lanes(self) -> tuple[int, ...]:
        """The lanes after the lane of suspects, in the order of this turn."""
        return BOTTOM_UP if is_from_bottom(self.turn) else TOP_DOWN

    @property
    def groups(self) -> list[Stream]:
        return [stream for stream in self.streams if stream.kind == "group"]
