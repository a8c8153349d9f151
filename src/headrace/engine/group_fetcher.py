"""Claims the events of one subscription, within its permits."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Unpack

from headrace.core.claim import Claim
from headrace.core.errors import BackendUnavailable
from headrace.core.message import Source
from headrace.core.outcome import DONE, Settlement, Verdict

from .bundle import bundled
from .fetcher import Fetcher, FetcherOptions
from .permits import Permits
from .shares import Shares
from .subscription import Subscription


class GroupFetcher(Fetcher):
    """As the fetcher of jobs; permits are taken before the read, since no more is asked for than is left.

    `refuse` ends a claim that no handler could take, and answers whether it did.
    """

    def __init__(
        self,
        subscription: Subscription,
        permits: Permits,
        *,
        shares: Shares,
        refuse: Callable[[Claim], bool],
        **options: Unpack[FetcherOptions],
    ) -> None:
        super().__init__(**options)
        self.subscription = subscription
        self.permits = permits
        self.unacknowledged: list[Claim] = []  # to be settled before they are handled
        self._shares = shares
        self._backlog = False  # the last claim brought all that it asked for
        self._refuse = refuse
        self._doubtful = False  # the last acknowledgement failed: it may have been carried out
        # A slot carries as many as its handler takes at once.
        self._load = subscription.batch or 1

    def add(self, source: Source) -> None:
        """Read from this one too, beginning with the claim that may be waiting now."""
        self.sources = [*self.sources, source]
        self._backend.wake(self.consumer)
        self.room_made()

    def _finished(self) -> int:
        return self.permits.finished

    def _plan(self, ahead: int) -> tuple[int, float]:
        if not self.sources or self._must_not_ask():
            return 0, 0.0
        if self._shares.alone:
            slots, wait = super()._plan(0 if self.subscription.batch else ahead)
        else:
            slots = self._shares.room(self, self.subscription)
            slots, wait = (slots, 0.0) if self._backlog else (min(slots, 1), self._patience())
        # Of batches only as many as will be full, if there is enough to fill them.
        return min(slots, self.permits.left // self._load) * self._load, wait

    async def _ask(self, limit: int, wait: float) -> list[Claim]:
        self._shares.promise(self, self.subscription, ceil(limit / self._load))
        try:
            claims = await super()._ask(limit, wait)
        finally:
            self._shares.received(self)
        self._backlog = len(claims) == limit
        return claims

    async def _step(self) -> float | None:
        if self.unacknowledged and not self._stopped:
            await self._acknowledge()
        return await super()._step()

    async def _receive(self, claims: list[Claim]) -> None:
        self.permits.take(len(claims))
        self._hold(claims)
        if self.subscription.ack == "receipt":
            self.unacknowledged += [claim for claim in claims if not self._refuse(claim)]
            await self._acknowledge()
        else:
            self._put(claims)

    def _put(self, claims: list[Claim]) -> None:
        batch = self.subscription.batch
        if batch:
            self._slots.put(bundled(claims, batch), later=True)
        else:
            self._slots.put(claims)

    async def _acknowledge(self) -> None:
        """Settle first, handle then. While the store cannot be reached they are held, and tried again."""
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
        """Hold them no longer, and handle those that are ours: of which the store has written, now or in an
        earlier try, that they are done with. They will not come again."""
        ours = (Verdict.KEPT, Verdict.GONE) if self._doubtful else (Verdict.KEPT,)
        self.unacknowledged, self._doubtful = [], False
        taken = [claim for claim, verdict in zip(claims, verdicts, strict=True) if verdict in ours]
        for claim in claims:
            self._holdings.drop(claim)
        for _ in range(len(claims) - len(taken)):
            self.permits.give_back()
        self._put(taken)
