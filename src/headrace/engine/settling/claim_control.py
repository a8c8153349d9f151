"""Interrupts or hands back claims when a message is cancelled, a stream is paused, or a lease is lost."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.records.answers import Renewal
from headrace.core.signals import LeaseLost
from headrace.engine.emitter import Emitter
from headrace.engine.running.batches.bundle import Bundle, bundle_of, parts_of
from headrace.engine.running.run import Run
from headrace.engine.running.slots import Slots

from .held_claims import HeldClaims
from .in_flight import InFlight


class ClaimControl:
    def __init__(
        self, worker: str, *, slots: Slots, held: HeldClaims, in_flight: InFlight, emitter: Emitter
    ) -> None:
        self._worker = worker
        self._slots = slots
        self._held = held
        self._running = held.running
        self._in_flight = in_flight
        self._emitter = emitter

    def handle_pauses(self, paused: frozenset[Stream]) -> None:
        if paused:
            self._take_back(lambda claim: claim.whole in paused)

    def handle_renewals(self, renewals: list[tuple[Claim, Renewal]]) -> None:
        lost = {claim for claim, renewal in renewals if renewal is not Renewal.CANCELLED}
        for claim, renewal in renewals:
            if renewal is Renewal.CANCELLED:
                self.cancel(claim.whole, claim.id)
            elif claim in self._running:
                # The handler still runs, so no settlement explains the answer: the lease is really lost. A
                # handler that settles its delivery itself learns of that from the store's answer.
                if not self._running[claim].settled:
                    self._lost(self._running[claim])
            else:
                self._lost_from_buffer(claim)
        for bundle, run in list(self._running.items()) if lost else ():
            # The handler goes on as long as one claim of its bundle is held. The others get no outcome.
            held = [part for part in parts_of(bundle) if part in self._held]
            if isinstance(bundle, Bundle) and held and lost.issuperset(held):
                self._lost(run)

    def _lost_from_buffer(self, claim: Claim) -> None:
        taken = self._slots.take_back(lambda buffered: any(part is claim for part in parts_of(buffered)))
        for buffered in taken:
            rest = [part for part in parts_of(buffered) if part is not claim]
            if rest:
                self._slots.put([bundle_of(rest[0], rest)])
        if taken:
            self._in_flight.lose(claim)

    def cancel(self, stream: Stream, id: str) -> None:
        def is_meant(claim: Claim) -> bool:
            return claim.id == id and claim.whole == stream

        for claim, run in list(self._running.items()):
            if all(map(is_meant, parts_of(claim))):  # a bundle does not end because of one claim
                run.interrupt("cancelled")
        # A claim that is only buffered is handed back: the store then ends it at once.
        self._take_back(lambda claim: any(map(is_meant, parts_of(claim))))

    def _take_back(self, wanted: Callable[[Claim], bool]) -> None:
        """Hand back buffered claims. Claims of a fan-out stay: only this process has them."""
        self._in_flight.hand_back(
            self._slots.take_back(lambda claim: wanted(claim) and parts_of(claim)[0] in self._held)
        )

    def _lost(self, run: Run) -> None:
        if run.interruption != "lost":  # each renewal reports it until the handler has ended
            run.interrupt("lost")
            self._emitter.emit(LeaseLost(run.id, run.task, run.queue, worker=self._worker))
