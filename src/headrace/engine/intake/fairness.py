"""How the slots are shared between subscriptions, so that a slow one holds up nobody else.

Whoever reads for a subscription takes free slots, but leaves one for each of the others that has none, and
one for jobs. A read takes time, so what is asked for is promised meanwhile. A reader that knows of no backlog
asks for one slot's worth, and for all it may have when it got that: else those that wait for events side by
side would get more together than there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.core.messages.claim import Claim
from headrace.engine.registry import Registry
from headrace.engine.running.run import Run
from headrace.engine.running.slots import Slots
from headrace.engine.subscription import Subscription


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
        """How many slots a reader may fill now. Where there are fewer slots than readers, whoever comes first
        has them."""
        if self._slots.size <= len(self._subscriptions) + self._with_jobs:
            return self._slots.free
        promised = {who: each for who, each in self._promised.items() if who is not reader}
        at_work = self._at_work() | {each for each, _ in promised.values()}
        starving = sum(each not in at_work for each in self._subscriptions if each is not subscription)
        for_jobs = self._with_jobs and None not in at_work
        return -self._slots.waiting - sum(count for _, count in promised.values()) - starving - for_jobs

    def promise(self, reader: object, subscription: Subscription, slots: int) -> None:
        """A reader asks for as much as fits in so many slots."""
        self._promised[reader] = subscription, slots

    def received(self, reader: object) -> None:
        """It has what it gets."""
        _, slots = self._promised.pop(reader)
        if slots > 1:
            self._room_made()

    def _at_work(self) -> set[Subscription | None]:
        """Who has a slot; None: jobs."""
        found = {id(claim.stream): claim for claims in (self._running, self._slots.ready) for claim in claims}
        return {self._registry.serving(claim) for claim in found.values()}
