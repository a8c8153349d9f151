"""What both models have in common: time, leases, and who may settle a message."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from headrace.core.messages.outcome import Done, Outcome, Verdict
from headrace.core.records.answers import Renewal, ReplayAnswer
from headrace.core.records.record import JobStatus
from headrace.testing.contract.kit.stand import LEASE

#: The lease in whole seconds, which is how a model counts.
LEASE_SECONDS: Final = round(LEASE)


@dataclass
class ModelClock:
    """Whole seconds since the start. A store's clock runs a little ahead of it, by as long as the test has
    taken. So every span is a multiple of ten seconds: nothing comes near a boundary by accident."""

    now: int = 0


@dataclass(kw_only=True)
class ModelMessage:
    """A message that has not been forgotten. Its claims have numbers; `holder` is the one that holds it."""

    holder: int | None = None
    worker: str = ""
    leased_at: int = 0
    hand_outs: set[int] = field(default_factory=set)
    crashes: int = 0
    cancelled_for: int | None = None  # it is to be cancelled, with an end record for so long


M = TypeVar("M", bound=ModelMessage)


class StreamModel(ABC, Generic[M]):
    """What should be in one stream that is claimed from: a queue or a group."""

    def __init__(self, clock: ModelClock) -> None:
        self._clock = clock
        self.messages: dict[str, M] = {}

    @property
    def now(self) -> int:
        return self._clock.now

    def holds(self, id: str, number: int) -> bool:
        return id in self.messages and self.messages[id].holder == number

    def hand_out(self, id: str, number: int, worker: str) -> None:
        message = self.messages[id]
        message.holder, message.worker, message.leased_at = number, worker, self.now
        message.hand_outs.add(number)

    def renew(self, id: str, number: int) -> Renewal:
        if not self.holds(id, number):
            return Renewal.LOST
        message = self.messages[id]
        message.leased_at = self.now
        return Renewal.KEPT if message.cancelled_for is None else Renewal.CANCELLED

    def settle(self, id: str, number: int, outcome: Outcome) -> Verdict:
        """A success counts from anyone who was ever given the message, any other outcome from its holder."""
        message = self.messages.get(id)
        if isinstance(outcome, Done):
            if message is None or number not in message.hand_outs or not self.can_succeed(message):
                return Verdict.GONE
        elif message is None or message.holder != number:
            return Verdict.LOST
        self.apply(message, outcome)
        return Verdict.KEPT

    def overdue(self) -> set[str]:
        return {id for id, message in self.messages.items() if self._has_run_out(message)}

    def _has_run_out(self, message: M) -> bool:
        return message.holder is not None and message.leased_at + LEASE_SECONDS <= self.now

    # --- what the two models do in their own way ---------------------------------------------------------

    @abstractmethod
    def can_succeed(self, message: M) -> bool:
        """Whether it is where a success still counts."""

    @abstractmethod
    def apply(self, message: M, outcome: Outcome) -> None: ...

    @abstractmethod
    def recover(self, id: str) -> tuple[int, JobStatus]:
        """Take it from its holder: how often it has crashed now, and where it went."""

    @abstractmethod
    def dead_ids(self) -> list[str]: ...

    @abstractmethod
    def replay(self, id: str) -> ReplayAnswer: ...

    @abstractmethod
    def discard(self, id: str) -> int: ...
