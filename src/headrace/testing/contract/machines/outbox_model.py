"""What should be in the outbox of one stream, written from the contract's prose alone."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from .model import ModelClock

#: Seconds for which a relay holds a batch.
HOLD: Final = 20


class OutboxModel:
    def __init__(self, clock: ModelClock) -> None:
        self._clock = clock
        self.entries: list[str] = []  # the ids of outgoing messages, the oldest first
        self._taken = 0  # so many of them are in the batch under way
        self._relay = ""
        self._until = 0

    def take(self, relay: str, limit: int) -> list[str]:
        """The ids of the batch that this relay gets; none: there is nothing for it."""
        if self._taken and self._relay != relay and self._clock.now < self._until:
            return []
        if not self.entries:
            return []
        self._taken = self._taken or min(limit, len(self.entries))
        self._relay, self._until = relay, self._clock.now + HOLD
        return self.entries[: self._taken]

    def hand_on(self, kept: Collection[int]) -> None:
        stay = [id for index, id in enumerate(self.entries[: self._taken]) if index in kept]
        self.entries = stay + self.entries[self._taken :]
        self._taken = 0
