"""A store and a model beside each other: what is done to both, and the claims that were made.

`job_pair.py` and `topic_pair.py` add what is special about their models.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import Outcome, Settlement, Verdict
from headrace.core.messages.outgoing import Outgoing, decode_outgoing
from headrace.core.outbox.outbox import OutgoingBatch
from headrace.core.runtime.clock import MovableClock, microseconds
from headrace.testing.contract.kit.stand import Stand, dead
from headrace.testing.contract.kit.tidy import check_that_nothing_is_left
from headrace.testing.contract.under_test import StoreUnderTest

from .model import ModelClock, StreamModel
from .outbox_model import HOLD, OutboxModel

T = TypeVar("T")

#: The stream that messages are forwarded to. No relay appends them there.
MAILS = Stream("queue", "mails")


@dataclass(frozen=True)
class HandOut:
    """A claim and the number that the model knows it by."""

    stream: Stream
    claim: Claim
    number: int


class Pair(ABC):
    """`backends` are two processes that use the store. `streams` are those that are claimed from."""

    def __init__(self, store: StoreUnderTest, clock: MovableClock) -> None:
        self._loop = asyncio.Runner()
        self._numbers = count(1)
        self.clock = ModelClock()
        self.stand = Stand(store, clock)
        self.hand_outs: list[HandOut] = []  # the latest last
        self.outboxes: defaultdict[Stream, OutboxModel] = defaultdict(lambda: OutboxModel(self.clock))
        self.run(self.stand.open())
        self.backends = [self.stand.backend, self.run(self.stand.other())]

    def close(self) -> None:
        try:
            self.empty_outboxes()
            self.run(check_that_nothing_is_left(self.stand))
            self.run(self.stand.close())
        finally:
            self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(coroutine)

    def next_number(self) -> int:
        return next(self._numbers)

    # --- what the two pairs do in their own way ----------------------------------------------------------

    @property
    @abstractmethod
    def streams(self) -> Mapping[Stream, StreamModel[Any]]:
        """Each with its model."""

    @abstractmethod
    def compare(self) -> None:
        """Whether the store shows what the model says."""

    @abstractmethod
    def fill(self, stream: Stream) -> None:
        """See to it that there is something to claim, where the actions alone do not."""

    @abstractmethod
    def claim(self, stream: Stream, process: int, limit: int, suspects: int) -> list[HandOut]: ...

    @abstractmethod
    def promote(self, process: int, limit: int) -> None: ...

    @abstractmethod
    def finish(self) -> None:
        """Check what must hold in the end, whatever was done."""

    # --- steps that several actions take -----------------------------------------------------------------

    def wait(self, seconds: int) -> None:
        self.run(self.stand.advance(seconds))
        self.clock.now += seconds

    def held(self, stream: Stream | None = None) -> list[HandOut]:
        return [each for each in self.hand_outs if self._holds(each) and stream in (None, each.stream)]

    def lost(self) -> list[HandOut]:
        """Claims that no longer hold their message; the latest, which are the more interesting ones."""
        return [each for each in self.hand_outs if not self._holds(each)][-4:]

    def _holds(self, each: HandOut) -> bool:
        return self.streams[each.stream].holds(each.claim.id, each.number)

    def hand_out(self, stream: Stream, claims: list[Claim], worker: str) -> list[HandOut]:
        """Note claims that were made."""
        handed = [HandOut(stream, claim, self.next_number()) for claim in claims]
        for each in handed:
            self.streams[stream].hand_out(each.claim.id, each.number, worker)
        self.hand_outs += handed
        return handed

    def busy(self, stream: Stream, process: int = 1) -> list[HandOut]:
        """What is held of a stream. Where it is nothing, something is claimed, if there is anything."""
        if not self.held(stream):
            self.fill(stream)
            self.claim(stream, process, limit=1, suspects=1)
        return self.held(stream)

    def settle(self, hand_out: HandOut, outcome: Outcome, process: int, forwards: int = 0) -> None:
        """Settle a claim, which forwards so many messages."""
        ids = [f"forwarded-{self.next_number()}" for _ in range(forwards)]
        outgoing = tuple(Outgoing(MAILS, self.stand.message(id)) for id in ids)
        settlement = Settlement(hand_out.claim, outcome, outgoing)
        (verdict,) = self.run(self.backends[process].settle([settlement]))
        assert verdict == self.streams[hand_out.stream].settle(hand_out.claim.id, hand_out.number, outcome)
        if verdict is Verdict.KEPT:
            self.outboxes[hand_out.stream].entries += ids

    # --- outboxes ----------------------------------------------------------------------------------------

    def take_outgoing(self, stream: Stream, process: int, limit: int) -> OutgoingBatch | None:
        """The batch that a relay of this process gets, compared with the model."""
        relay, hold_us = f"relay-{process}", microseconds(HOLD)
        batches = self.run(
            self.backends[process].take_outgoing([stream], relay=relay, limit=limit, hold_us=hold_us)
        )
        found = [decode_outgoing(entry.content).message.id for batch in batches for entry in batch.entries]
        assert found == self.outboxes[stream].take(relay, limit)
        return batches[0] if batches else None

    def hand_on(self, batch: OutgoingBatch, process: int, kept: Sequence[int] = ()) -> None:
        assert batch.origin is not None
        self.run(self.backends[process].hand_on(batch, kept=kept))
        self.outboxes[batch.origin].hand_on(kept)

    def compare_outboxes(self) -> None:
        found = {record.origin: record.waiting for record in self.run(self.backends[1].outboxes())}
        assert found == {stream: len(each.entries) for stream, each in self.outboxes.items() if each.entries}

    def empty_outboxes(self) -> None:
        self.wait(2 * HOLD)
        for stream in list(self.outboxes):
            while batch := self.take_outgoing(stream, 0, limit=100):
                self.hand_on(batch, 0)

    def bury(self, stream: Stream, process: int) -> list[str]:
        """The dead letters of a stream. Where there is none, what is held dies."""
        model = self.streams[stream]
        if not model.dead_ids() and (held := self.busy(stream, process)):
            self.settle(held[-1], dead(held[-1].claim.state), process)
        return model.dead_ids()

    def reclaim(self) -> None:
        """Take away all that was not renewed in time."""
        recovered = self.run(self.stand.reclaim(sources=list(self.streams), limit=2))
        found = [(each.stream, each.id) for each in recovered]
        assert len(set(found)) == len(found)
        overdue = [(stream, id) for stream, model in self.streams.items() for id in model.overdue()]
        assert set(found) == set(overdue)
        for each in recovered:
            model = self.streams[each.stream]
            assert each.worker == model.messages[each.id].worker
            assert (each.crashes, each.status) == model.recover(each.id)
