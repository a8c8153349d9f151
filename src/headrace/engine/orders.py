"""What a worker is told: orders from anywhere, and what its renewals are answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.core.backend import Renewal
from headrace.core.claim import Claim
from headrace.core.message import Stream
from headrace.core.orders import (
    CancelOrder,
    DueOrder,
    LayoutOrder,
    LeaseOrder,
    MissedOrder,
    Order,
    PauseOrder,
    ScheduleOrder,
)
from headrace.core.signals import LeaseLost

from .bundle import Bundle, bundle_of, parts_of
from .emitter import Emitter
from .holdings import Holdings
from .run import Run
from .slots import Slots


class Orders:
    """Obeys what concerns claims itself, and passes the rest on to the service that it is for."""

    def __init__(
        self,
        *,
        worker: str,
        running: Mapping[Claim, Run],
        slots: Slots,
        holdings: Holdings,
        emitter: Emitter,
        hand_back: Callable[[list[Claim]], None],
        lose: Callable[[Claim], None],
    ) -> None:
        self._worker = worker
        self._running = running
        self._slots = slots
        self._holdings = holdings
        self._emitter = emitter
        self._hand_back = hand_back
        self._lose = lose

    def passed_on_to(
        self,
        *,
        resumed: Callable[[], None],
        due: Callable[[Stream | None], None],
        leases: Callable[[Mapping[Stream, int]], None],
        schedules: Callable[[Stream | None], None],
    ) -> None:
        self._resumed = resumed
        self._due = due
        self._leases = leases
        self._schedules = schedules

    def obey(self, order: Order) -> None:
        match order:
            case CancelOrder(stream=stream, id=id):
                self._cancel(stream, id)
            case PauseOrder(stream=stream, paused=True):
                self.heed_pauses(frozenset({stream}))
            case PauseOrder():
                self._resumed()
            case DueOrder(stream=stream):
                self._due(stream)
            case LeaseOrder(stream=stream, lease_us=lease_us):
                self._leases({stream: lease_us})
            case ScheduleOrder(stream=stream):
                self._schedules(stream)
            case MissedOrder():
                self._due(None)
                self._schedules(None)
            case LayoutOrder():
                pass  # whoever stands in front of the store has seen to it

    def heed_pauses(self, paused: frozenset[Stream]) -> None:
        if paused and self._slots.ready:
            self._take_back(lambda claim: claim.whole in paused)

    def heed_renewals(self, renewals: list[tuple[Claim, Renewal]]) -> None:
        lost = {claim for claim, renewal in renewals if renewal is not Renewal.CANCELLED}
        for claim, renewal in renewals:
            if renewal is Renewal.CANCELLED:
                self._cancel(claim.whole, claim.id)
            elif claim in self._running:
                # Still in a handler, so no settlement under way explains it: the lease is really gone.
                self._lost(self._running[claim])
            else:
                self._lost_from_buffer(claim)
        for bundle, run in list(self._running.items()) if lost else ():
            # As long as a part of a list is ours the handler goes on: of the rest nothing is written.
            held = [part for part in parts_of(bundle) if part in self._holdings]
            if isinstance(bundle, Bundle) and held and lost.issuperset(held):
                self._lost(run)

    def _lost_from_buffer(self, claim: Claim) -> None:
        taken = self._slots.take_back(lambda buffered: any(part is claim for part in parts_of(buffered)))
        for buffered in taken:
            rest = [part for part in parts_of(buffered) if part is not claim]
            if rest:
                self._slots.put([bundle_of(rest[0], rest)])
        if taken:
            self._lose(claim)

    def _cancel(self, stream: Stream, id: str) -> None:
        def is_meant(claim: Claim) -> bool:
            return claim.id == id and claim.whole == stream

        for claim, run in list(self._running.items()):
            if all(map(is_meant, parts_of(claim))):  # a list is not ended for the sake of one
                run.interrupt("cancelled")
        # One that is only buffered is handed back: the store ends it there and then.
        self._take_back(lambda claim: any(map(is_meant, parts_of(claim))))

    def _take_back(self, wanted: Callable[[Claim], bool]) -> None:
        """Hand back what is buffered, but for what only this process has."""
        self._hand_back(
            self._slots.take_back(lambda claim: wanted(claim) and parts_of(claim)[0] in self._holdings)
        )

    def _lost(self, run: Run) -> None:
        if run.interruption != "lost":  # each renewal says so until the handler has ended
            run.interrupt("lost")
            self._emitter.emit(LeaseLost(run.id, run.task, run.queue, worker=self._worker))
