"""The claims that a worker holds, from the claim until its settlement is written, and the running ones."""

from __future__ import annotations

import time
from collections.abc import Iterable

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import FRESH
from headrace.core.messages.outcome import Settlement
from headrace.core.runtime.clock import microseconds
from headrace.engine.running.run import Run


class HeldClaims:
    """Claims with the times at which they were taken. The event loop writes them, and the thread of the lease
    renewal reads them."""

    def __init__(self) -> None:
        self.running: dict[Claim, Run] = {}  # claims and whole bundles that are in a handler
        self._since: dict[Claim, float] = {}
        self._suspects: list[Claim] = []  # in the order in which they were taken

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, claim: Claim) -> bool:
        return claim in self._since

    def take(self, claims: list[Claim]) -> None:
        self._since.update(dict.fromkeys(claims, time.monotonic()))
        self._suspects += [claim for claim in claims if claim.state is not FRESH and claim.suspect]

    def drop(self, claim: Claim) -> None:
        if self._since.pop(claim, None) is not None and claim.suspect:
            self._suspects.remove(claim)

    def drop_fresh(self, settled: Iterable[Settlement]) -> None:
        """Drop many claims at once, none of which is a suspect."""
        pop = self._since.pop
        for settlement in settled:
            pop(settlement.claim, None)

    @property
    def several_suspects(self) -> bool:
        return len(self._suspects) > 1

    def suspects_within(self, seconds: float) -> list[Claim]:
        """Suspects taken less than this long ago, the earliest first."""
        if not self._suspects:
            return []
        return [claim for claim in self._suspects if self.age(claim) < seconds]

    def age(self, claim: Claim) -> float:
        """Seconds since the claim was taken; 0 when it is not held."""
        since = self._since.get(claim)
        return 0.0 if since is None else time.monotonic() - since

    def older_than(self, seconds: float) -> list[Claim]:
        """Claims taken at least this long ago. Safe from any thread: copying a dict's items is one step."""
        limit = time.monotonic() - seconds
        return [claim for claim, since in list(self._since.items()) if since <= limit]

    def store_clock_us(self, claim: Claim) -> int:
        """The store's clock now, calculated from its time when the claim was taken."""
        return claim.claimed_us + microseconds(self.age(claim))
