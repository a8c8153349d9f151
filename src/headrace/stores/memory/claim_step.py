"""One claim: takes queued messages lane by lane, from several streams. The caller holds the lock."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.messages.claim import Claim, size_of
from headrace.core.rules.lanes import is_child_work_first, is_from_bottom, share_of_constrained
from headrace.core.store import CLAIM_BYTES
from headrace.stores.memory.streams.lanes import BOTTOM_UP, CHILD, RETURNED, SUSPECT, TOP_DOWN
from headrace.stores.memory.streams.stream_state import StreamState


class ClaimLimits(msgspec.Struct, frozen=True):
    """The most messages that a claim wants. `turn` counts the claims of a process."""

    turn: int
    limit: int
    suspects: int
    children: int
    constrained: int

    @property
    def lanes(self) -> tuple[int, ...]:
        """The lanes after the lane of suspects, in the order in which a claim takes from them."""
        return (RETURNED, *(BOTTOM_UP if is_from_bottom(self.turn) else TOP_DOWN))


class ClaimStep:
    def __init__(
        self, streams: Sequence[StreamState], wanted: ClaimLimits, *, consumer: str, now_us: int
    ) -> None:
        self._streams = streams
        self._with_children = (
            [each for each in streams if each.lanes.held_children] if wanted.children else []
        )
        self._wanted = wanted
        self._consumer = consumer
        self._now_us = now_us
        self._room = CLAIM_BYTES
        self._children = wanted.children
        self._constrained = wanted.constrained

    def run(self) -> list[Claim]:
        wanted = self._wanted
        claims = self._take(SUSPECT, min(wanted.suspects, wanted.limit))
        for lane in wanted.lanes:
            if len(claims) == wanted.limit or self._room <= 0:
                break
            claims += self._take(lane, wanted.limit - len(claims))
        return claims

    def _take(self, lane: int, limit: int) -> list[Claim]:
        """Take from one lane. Child work and the rest take turns to go first."""
        if not self._with_children:
            return self._take_from(self._streams, lane, limit)
        claims: list[Claim] = []
        for child_work in (True, False) if is_child_work_first(self._wanted.turn) else (False, True):
            most = limit - len(claims)
            if child_work:
                taken = self._take_from(self._with_children, lane + CHILD, min(most, self._children))
                self._children -= len(taken)
            else:
                taken = self._take_from(self._streams, lane, most)
            claims += taken
        return claims

    def _take_from(self, streams: Sequence[StreamState], lane: int, limit: int) -> list[Claim]:
        claims: list[Claim] = []
        for stream in streams:
            if len(claims) >= limit or self._room <= 0:
                break
            found = self._take_some(stream, lane, limit - len(claims))
            self._room -= size_of(found)
            claims += found
        return claims

    def _take_some(self, stream: StreamState, lane: int, limit: int) -> list[Claim]:
        if not (self._constrained and stream.lanes.lines):
            return stream.take(lane, limit, self._room, self._consumer, self._now_us)
        # Messages without and with constraints get half each, or what the others leave.
        share = share_of_constrained(limit, self._wanted.turn)
        claims = self._take_constrained(stream, lane, share, self._room)
        room = self._room - size_of(claims)
        claims += stream.take(lane, limit - len(claims), room, self._consumer, self._now_us)
        room = self._room - size_of(claims)
        return claims + self._take_constrained(stream, lane, limit - len(claims), room)

    def _take_constrained(self, stream: StreamState, lane: int, limit: int, room: int) -> list[Claim]:
        most = min(limit, self._constrained)
        claims = stream.take_constrained(lane, most, room, self._consumer, self._now_us)
        self._constrained -= len(claims)
        return claims
