"""Claims jobs of queues of which some may use a part of the worker's slots only.

A queue without slots left is not asked. The other queues get one claim each, or one together, so that none
brings more than its slots can take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.store import NO_CRASH_LIMITS
from headrace.engine.running.children.pool import ChildPool

from .queue_reader import QueueReader, ReaderParts


class Share(NamedTuple):
    """Queues that one claim may ask, and how many messages it may bring."""

    streams: Sequence[Stream]
    most: int


class SlottedReader(QueueReader):
    """`most` is the number of slots of each queue that may not use all of them."""

    def __init__(
        self,
        parts: ReaderParts,
        streams: Sequence[Stream],
        *,
        most: Mapping[Stream, int],
        consumer: str,
        processes: ChildPool | None = None,
        constrained: bool = False,
        crash_limits: Mapping[Stream, int] = NO_CRASH_LIMITS,
    ) -> None:
        super().__init__(
            parts,
            streams,
            consumer=consumer,
            processes=processes,
            constrained=constrained,
            crash_limits=crash_limits,
        )
        self._most = most
        self._free_streams = [stream for stream in streams if stream not in most]
        self._backlog = True  # the last claim brought something
        self._turn = 0

    def room_made(self) -> None:
        if not self._left_out:
            super().room_made()
            return
        left = self._left()
        if any([left[stream] > 0 for stream in self._left_out]):
            self.due_for_more = False
            self.wake()  # ends the claim that does not ask these queues
        elif self.childless:
            super().room_made()

    def _room(self, ahead: int) -> int:
        room = super()._room(ahead)
        if self._free_streams or room <= 0:
            return room
        return min(room, sum([max(0, most) for most in self._left().values()]))

    async def _ask(self, limit: int, wait: float) -> list[Claim]:
        left = self._left()
        self._left_out = [stream for stream, most in left.items() if most <= 0]
        try:
            claims = await self._ask_shares(self._shares(left, limit), limit, wait)
        finally:
            self._left_out = ()
        self._backlog = bool(claims)
        return claims

    async def _ask_shares(self, shares: list[Share], limit: int, wait: float) -> list[Claim]:
        if len(shares) > 1 and (self._backlog or not wait):
            claims = await self._ask_apart(shares, limit)
            if claims or not wait:
                return claims
        together = [stream for streams, _ in shares for stream in streams]
        return await self._claim_from(together, min(most for _, most in shares), wait)

    def _shares(self, left: dict[Stream, int], limit: int) -> list[Share]:
        """What claims can ask now. Queues whose slots are enough for the whole limit share one claim."""
        narrow = {stream: most for stream, most in left.items() if most < limit}
        wide = [stream for stream in self.streams if stream not in narrow]
        apart = [Share([stream], most) for stream, most in narrow.items() if most > 0]
        return [Share(wide, limit), *apart] if wide else apart

    async def _ask_apart(self, shares: list[Share], limit: int) -> list[Claim]:
        """Ask each share, without waiting. They take turns to go first."""
        self._turn = (self._turn + 1) % len(shares)
        claims: list[Claim] = []
        for streams, most in shares[self._turn :] + shares[: self._turn]:
            room = min(most, limit - len(claims))
            if room <= 0:
                break
            try:
                claims += await self._claim_from(streams, room, 0.0, claims)
            except Exception:
                if not claims:
                    raise
                break  # what was claimed before is not lost; the next claim meets the error again
        return claims

    async def _receive(self, claims: list[Claim]) -> None:
        self._hold(claims)
        left = self._left()
        surplus: list[Claim] = []
        for claim in claims:
            if claim.whole in left:
                left[claim.whole] -= 1
                if left[claim.whole] < 0:  # the store offers messages of a lost answer again, without asking
                    surplus.append(claim)
        if surplus:
            claims = [claim for claim in claims if claim not in surplus]
            self._in_flight.hand_back(surplus)
        self._slots.put(claims)

    def _left(self) -> dict[Stream, int]:
        """How many slots each queue has left. A list of a batch task takes one."""
        left = dict(self._most)
        for claims in (self._held.running, self._slots.ready):
            for claim in claims:
                if claim.whole in left:
                    left[claim.whole] -= 1
        return left
