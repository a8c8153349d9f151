"""Hands back what a worker has claimed ahead and does not come to: others may be idle."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.claim import Claim

from .bundle import parts_of
from .emitter import Emitter
from .holdings import Holdings
from .service import Service
from .slots import Slots

#: Buffered claims older than this many seconds are handed back: the pace fell.
HOARDED = 0.25


class Balancer:
    def __init__(
        self,
        slots: Slots,
        holdings: Holdings,
        *,
        hand_back: Callable[[list[Claim]], None],
        emitter: Emitter,
    ) -> None:
        self._slots = slots
        self._holdings = holdings
        self._hand_back = hand_back
        service = Service("balancer", self._unhoard, emitter=emitter)
        self.start, self.stop = service.start, service.stop

    async def _unhoard(self) -> float | None:
        # What only this process has is not held by a lease: it has no age, and stays.
        ages = (self._holdings.age(parts_of(claim)[0]) for claim in self._slots.ready)
        if next(filter(None, ages), 0.0) > HOARDED:
            self._hand_back(self._slots.take_back(lambda claim: parts_of(claim)[0] in self._holdings))
        return HOARDED / 2
