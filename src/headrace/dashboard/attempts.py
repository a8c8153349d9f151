"""A bound on guessing, for each address, so that a guesser does not lock out the others."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

from headrace.core.hosts import network_of

#: Seconds after which a wrong try is forgotten.
MINUTE: Final = 60.0

#: Wrong tries within that time: of an IPv4 address or an IPv6 network of 64 bits, and of one of 48, which is
#: what a customer of a provider may have.
ATTEMPTS: Final = 10
WIDE_ATTEMPTS: Final = 30
WIDE_BITS: Final = 48

#: Of all together: whoever has thousands of addresses is bounded too, and so is the memory that this takes.
ALL_ATTEMPTS: Final = 1000


class Attempts:
    def __init__(self) -> None:
        self._wrong: deque[tuple[float, list[str]]] = deque()
        self._counts: Counter[str] = Counter()

    def allowed(self, address: str) -> bool:
        """Whether this address may try now."""
        self._forget()
        return all(self._counts[name] < most for name, most in _limits(address).items())

    def count(self, address: str) -> None:
        """A try that was allowed, and was wrong."""
        names = list(_limits(address))
        self._wrong.append((time.monotonic(), names))
        self._counts.update(names)

    def _forget(self) -> None:
        now = time.monotonic()
        while self._wrong and now - self._wrong[0][0] >= MINUTE:
            _, names = self._wrong.popleft()
            self._counts.subtract(names)
            for name in names:
                if not self._counts[name]:
                    del self._counts[name]


def _limits(address: str) -> Mapping[str, int]:
    """What a try of this address counts for, and how many that may have."""
    network = network_of(address)
    limits = {network: ATTEMPTS, "all": ALL_ATTEMPTS}
    return limits | {network_of(address, WIDE_BITS): WIDE_ATTEMPTS} if ":" in network else limits
