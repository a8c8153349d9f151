"""Renews leases, on an event loop of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.core.messages.claim import Claim
from headrace.core.records.answers import Renewal
from headrace.core.store import LeaseKeeper

from .shared_state import SharedState


class MemoryLeaseKeeper(LeaseKeeper):
    def __init__(self, store: SharedState, now_us: Callable[[], int]) -> None:
        self._store = store
        self._now_us = now_us

    async def renew(self, claims: Sequence[Claim], *, after_outage: bool = False) -> list[Renewal]:
        with self._store.lock:
            now_us = self._now_us()
            if after_outage:
                self._store.restart_leases({claim.stream for claim in claims}, now_us)
            return [self._store.stream_state(claim.stream).renew(claim, now_us) for claim in claims]

    async def close(self) -> None:
        """There is no connection."""
