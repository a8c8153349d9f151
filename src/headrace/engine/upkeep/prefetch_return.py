"""Hands back claims that a worker took in advance and cannot run soon. Other workers may be idle, or may hold
these claims already if this process stood still."""

from __future__ import annotations

from time import perf_counter

from headrace.engine.emitter import Emitter
from headrace.engine.running.bundle import parts_of
from headrace.engine.running.slots import Slots
from headrace.engine.service import Service
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.settling.in_flight import InFlight

#: Buffered claims older than this many seconds are handed back: the pace has dropped.
HOARDED = 0.25


class PrefetchReturn:
    def __init__(self, slots: Slots, held: HeldClaims, *, in_flight: InFlight, emitter: Emitter) -> None:
        self._slots = slots
        self._held = held
        self._in_flight = in_flight
        slots.doubt = self.unhoard
        service = Service("prefetch return", self._step, emitter=emitter)
        self.start, self.stop = service.start, service.stop

    async def _step(self) -> float | None:
        self.unhoard()
        return HOARDED / 2

    def unhoard(self) -> None:
        """Hand back old buffered claims. Slots call this too when it is overdue: after a standstill they may
        run before this service."""
        self._slots.trusted_until = perf_counter() + HOARDED
        # Claims of a fan-out have no lease and so no age. They stay.
        ages = (self._held.age(parts_of(claim)[0]) for claim in self._slots.ready)
        if next(filter(None, ages), 0.0) > HOARDED:
            self._slots.crowded = not self._slots.full
            self._in_flight.hand_back(self._slots.take_back(lambda claim: parts_of(claim)[0] in self._held))
