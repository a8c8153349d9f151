"""A memory store in which a test watches verbs of the contract, replaces them, and sends control messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.core.runtime.clock import MovableClock, microseconds
from headrace.store import (
    Claim,
    ControlMessage,
    LeaseKeeper,
    LeaseNotice,
    MissedNotice,
    Renewal,
    Stream,
)
from headrace.stores.memory.shared_state import SharedState
from headrace.stores.memory.store import MemoryStore

Listener = Callable[[ControlMessage], None]


class Calls:
    """The calls of one verb: the positional arguments of each, and how many have not returned yet."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []
        self.under_way = 0


class WatchedKeeper(LeaseKeeper):
    """Notes what is renewed, and answers for some messages that their lease is lost."""

    def __init__(self, keeper: LeaseKeeper, renewed: list[str], lost: set[str]) -> None:
        self._keeper = keeper
        self._renewed = renewed
        self._lost = lost

    async def renew(self, claims: Sequence[Claim], *, after_outage: bool = False) -> list[Renewal]:
        self._renewed.extend(claim.id for claim in claims)
        answers = await self._keeper.renew(claims, after_outage=after_outage)
        return [
            Renewal.LOST if claim.id in self._lost else answer
            for claim, answer in zip(claims, answers, strict=True)
        ]

    async def close(self) -> None:
        await self._keeper.close()


class InterceptedStore(MemoryStore):
    def __init__(self, clock: MovableClock | None = None) -> None:
        self.clock = clock or MovableClock()
        super().__init__(SharedState(), name="test", clock=self.clock)
        self.renewed: list[str] = []  # ids, each time that their leases are renewed
        self.lost: set[str] = set()  # ids whose leases are lost for those who renew them
        self.ahead = 0  # so many messages more than it asks for are handed to the next that claims some
        self._listeners: list[Listener] = []

    def intercept(self, verb: str, replacement: Callable[..., Any]) -> None:
        """Have `replacement` answer a verb; `restore` ends it."""
        assert hasattr(type(self), verb), f"{verb} is no verb of a store"
        setattr(self, verb, replacement)

    def restore(self, verb: str) -> None:
        """Have the store answer a verb itself again."""
        delattr(self, verb)

    def watch(self, verb: str) -> Calls:
        """Count the calls of a verb from now on."""
        calls, answer = Calls(), getattr(self, verb)

        async def watched(*args: Any, **options: Any) -> Any:
            calls.made.append(args)
            calls.under_way += 1
            try:
                return await answer(*args, **options)
            finally:
                calls.under_way -= 1

        self.intercept(verb, watched)
        return calls

    async def claim(
        self,
        sources: Sequence[Stream],
        *,
        consumer: str,
        limit: int,
        suspects: int,
        children: int | None = None,
        constrained: int | None = None,
        wait: float,
    ) -> list[Claim]:
        claims = await super().claim(
            sources,
            consumer=consumer,
            limit=limit + self.ahead,
            suspects=suspects,
            children=children,
            constrained=constrained,
            wait=wait,
        )
        if claims:
            self.ahead = 0
        return claims

    def lease_keeper(self) -> LeaseKeeper:
        return WatchedKeeper(super().lease_keeper(), self.renewed, self.lost)

    def listen(self, hear: Listener) -> Callable[[], None]:
        end = super().listen(hear)
        self._listeners.append(hear)

        def end_both() -> None:
            if hear in self._listeners:
                self._listeners.remove(hear)
            end()

        return end_both

    def announce(self, message: ControlMessage) -> None:
        """Send a control message to all workers of this process."""
        for hear in list(self._listeners):
            hear(message)

    def pass_time(self, seconds: float) -> None:
        """Move the clock under running workers, which look at once for what is due now."""
        self.clock.advance(seconds)
        self.announce(MissedNotice())

    def change_lease(self, stream: Stream, seconds: float) -> None:
        """Announce another lease of a stream. Workers then renew what they hold, and recover what is lost, at
        once."""
        self.announce(LeaseNotice(stream, microseconds(seconds)))
