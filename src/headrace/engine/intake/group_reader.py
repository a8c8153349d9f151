"""Claims the events of one subscription, within the limit of the subscription."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import DONE, Done, Settlement, Verdict
from headrace.engine.declared.subscription import Subscription
from headrace.engine.running.batches.bundle import bundled
from headrace.engine.running.finished import FinishedRun
from headrace.engine.running.preparation import RunPreparation
from headrace.engine.settling.manual_acks import ManualAcks, left_open
from headrace.engine.settling.settlement_signals import SettlementSignals

from .fairness import SlotFairness
from .queue_reader import QueueReader, ReaderParts
from .subscription_limit import SubscriptionLimit


class EventParts(NamedTuple):
    """The parts of a worker that only readers of events need."""

    fairness: SlotFairness
    acks: ManualAcks
    preparation: RunPreparation
    signals: SettlementSignals


class GroupReader(QueueReader):
    """A queue reader that claims no more than the limit of its subscription allows."""

    def __init__(
        self,
        parts: ReaderParts,
        subscription: Subscription,
        *,
        consumer: str,
        limit: SubscriptionLimit,
        events: EventParts,
    ) -> None:
        super().__init__(parts, [], consumer=consumer)
        self.subscription = subscription
        self.limit: SubscriptionLimit = limit
        self.hands_back = subscription.ack != "receipt"
        self.unacknowledged: list[Claim] = []  # they are settled before they are handled
        self._fairness = events.fairness
        self._acks = events.acks
        self._prepare = events.preparation.prepare
        self._signals = events.signals
        self._backlog = False  # the last claim got as many events as it requested
        self._doubtful = False  # the last acknowledgement failed, but may have been written
        # A slot holds as many events as its handler takes in one call.
        self._load = subscription.batch or 1

    def add(self, stream: Stream) -> None:
        """Read from this stream too. A claim that waits now ends, so that the next one includes it."""
        self.streams = [*self.streams, stream]
        self.wake()
        self.room_made()

    async def stop(self) -> None:
        """Claim no more, and hand back claims that are not acknowledged yet."""
        await super().stop()
        self._in_flight.hand_back(self.unacknowledged)

    def ended(self, finished: list[FinishedRun]) -> list[FinishedRun]:
        return [each for each in finished if self._is_to_be_settled(each)]

    def written(self, finished: FinishedRun) -> None:
        if self._acks.written(finished.claim) and not finished.late:
            self.limit.give_back()

    def lost(self) -> None:
        self.limit.give_back()

    def _is_to_be_settled(self, finished: FinishedRun) -> bool:
        """Whether the outcome of this run must be written. Otherwise the claim ends here."""
        claim = finished.claim
        if self.subscription.ack == "receipt" and claim not in self._held:
            self._end_acknowledged(finished)
            return False
        if self._acks.took(claim):
            self._signals.failed(finished)  # an error after the settlement changes nothing
            if not self._acks.awaits(claim):
                self.limit.give_back()
            return False
        if self.subscription.ack == "manual" and left_open(finished):
            self._signals.left_open(finished)
            self._held.drop(claim)
            self.limit.give_back()
            return False
        return True

    def _end_acknowledged(self, finished: FinishedRun) -> None:
        """End an event that was settled before it was handled. It does not come again."""
        self._signals.failed(finished)
        if isinstance(finished.outcome, Done):
            self._signals.ended(finished)
        self.handled += 1
        self.limit.give_back()

    def _finished(self) -> int:
        return self.limit.finished

    def _plan(self, ahead: int) -> tuple[int, float]:
        if not self.streams or self._must_not_ask():
            return 0, 0.0
        if self._fairness.alone:
            slots, wait = super()._plan(0 if self.subscription.batch else ahead)
        else:
            slots = self._fairness.room(self, self.subscription)
            slots, wait = (slots, 0.0) if self._backlog else (min(slots, 1), self._patience())
        # Request only whole batches, so that each is full if there are enough events.
        return min(slots, self.limit.left // self._load) * self._load, wait

    async def _ask(self, limit: int, wait: float) -> list[Claim]:
        self._fairness.promise(self, self.subscription, ceil(limit / self._load))
        try:
            claims = await super()._ask(limit, wait)
        finally:
            self._fairness.received(self)
        self._backlog = len(claims) == limit
        return claims

    async def _step(self) -> float | None:
        if self.unacknowledged and not self._stopped:
            await self._acknowledge()
        return await super()._step()

    async def _receive(self, claims: list[Claim]) -> None:
        self.limit.take(len(claims))
        self._hold(claims)
        if self.subscription.ack == "receipt":
            self.unacknowledged += [claim for claim in claims if self._can_be_handled(claim)]
            await self._acknowledge()
        else:
            self._put(claims)

    def _can_be_handled(self, claim: Claim) -> bool:
        """Whether a handler can take the claim. If not, end the claim: it must not be acknowledged."""
        prepared = self._prepare(claim)
        if isinstance(prepared, FinishedRun):
            self._in_flight.finish([prepared])
        return not isinstance(prepared, FinishedRun)

    def _put(self, claims: list[Claim]) -> None:
        batch = self.subscription.batch
        if batch:
            self._slots.put(bundled(claims, batch), later=True)
        else:
            self._slots.put(claims)

    async def _acknowledge(self) -> None:
        """Settle the claims before they are handled. While the store cannot be reached, hold them and try
        again."""
        claims = self.unacknowledged
        try:
            verdicts = await self._backend.settle([Settlement(claim, DONE) for claim in claims])
        except BackendUnavailable:
            self._doubtful = True
            raise
        except Exception:
            self._let_go(claims, [Verdict.LOST] * len(claims))
            raise
        self._let_go(claims, verdicts)

    def _let_go(self, claims: list[Claim], verdicts: list[Verdict]) -> None:
        """Stop holding the claims. Handle those that the store has written as done, now or in an earlier try:
        they will not come again."""
        ours = (Verdict.KEPT, Verdict.GONE) if self._doubtful else (Verdict.KEPT,)
        self.unacknowledged, self._doubtful = [], False
        taken = [claim for claim, verdict in zip(claims, verdicts, strict=True) if verdict in ours]
        for claim in claims:
            self._held.drop(claim)
        for _ in range(len(claims) - len(taken)):
            self.limit.give_back()
        self._put(taken)
