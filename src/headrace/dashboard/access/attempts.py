"""A limit on wrong passwords for each address, so that an attacker does not lock out other users."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

from headrace.core.runtime.hosts import network_of

#: Seconds after which a wrong attempt is forgotten.
MINUTE: Final = 60.0

#: Wrong attempts within that time: of an IPv4 address or an IPv6 network of 64 bits, and of a network of 48
#: bits, which one customer of a provider may have.
ATTEMPTS: Final = 10
WIDE_ATTEMPTS: Final = 30
WIDE_BITS: Final = 48

#: Wrong attempts of all addresses together. This limits an attacker with thousands of addresses, and the
#: memory of this table.
ALL_ATTEMPTS: Final = 1000


class WrongAttempts:
    def __init__(self) -> None:
        self._wrong: deque[tuple[float, list[str]]] = deque()
        self._counts: Counter[str] = Counter()

    def allowed(self, address: str) -> bool:
        """Whether this address may try a password now."""
        self._forget()
        return all(self._counts[name] < most for name, most in _limits(address).items())

    def count(self, address: str) -> None:
        """Count an attempt that was allowed and wrong."""
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
    """The networks that an attempt of this address counts for, each with its limit."""
    network = network_of(address)
    limits = {network: ATTEMPTS, "all": ALL_ATTEMPTS}
    return limits | {network_of(address, WIDE_BITS): WIDE_ATTEMPTS} if ":" in network else limits
