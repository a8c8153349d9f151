"""Shares the slots between subscriptions, so that a slow subscription does not block the others.

A reader takes free slots, but leaves one for each other subscription that has none, and one for jobs. A read
takes time, so the slots of a read are promised until its answer. A reader that knows of no backlog requests
events for one slot. When it got them, it requests all that it may have. Otherwise readers that wait for
events at the same time would together get more than there are slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.core.messages.claim import Claim
from headrace.engine.declared.registry import Registry
from headrace.engine.declared.subscription import Subscription
from headrace.engine.running.run import Run
from headrace.engine.running.slots import Slots


class SlotFairness:
    def __init__(
        self,
        slots: Slots,
        running: Mapping[Claim, Run],
        *,
        registry: Registry,
        subscriptions: Sequence[Subscription],
        with_jobs: bool,
        room_made: Callable[[], None],
    ) -> None:
        self._slots = slots
        self._running = running
        self._registry = registry
        self._subscriptions = subscriptions
        self._with_jobs = with_jobs
        self._room_made = room_made
        self._promised: dict[object, tuple[Subscription, int]] = {}

    @property
    def alone(self) -> bool:
        """Whether there is only one subscription, and no jobs."""
        return len(self._subscriptions) == 1 and not self._with_jobs

    def room(self, reader: object, subscription: Subscription) -> int:
        """How many slots a reader may fill now. With fewer slots than readers, the first reader gets them."""
        if self._slots.size <= len(self._subscriptions) + self._with_jobs:
            return self._slots.free
        promised = {who: each for who, each in self._promised.items() if who is not reader}
        at_work = self._at_work() | {each for each, _ in promised.values()}
        without_slot = sum(each not in at_work for each in self._subscriptions if each is not subscription)
        for_jobs = self._with_jobs and None not in at_work
        return -self._slots.waiting - sum(count for _, count in promised.values()) - without_slot - for_jobs

    def promise(self, reader: object, subscription: Subscription, slots: int) -> None:
        """Promise this many slots to a reader until its read is answered."""
        self._promised[reader] = subscription, slots

    def received(self, reader: object) -> None:
        """The read is answered: end the promise."""
        _, slots = self._promised.pop(reader)
        if slots > 1:
            self._room_made()

    def _at_work(self) -> set[Subscription | None]:
        """The subscriptions that have a slot; None stands for jobs."""
        found = {id(claim.stream): claim for claims in (self._running, self._slots.ready) for claim in claims}
        return {self._registry.serving(claim) for claim in found.values()}
