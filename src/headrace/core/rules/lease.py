"""The lease of a stream: how long a claim is held without a renewal. Workers may change it."""

from __future__ import annotations

import msgspec

from headrace.core.runtime.clock import SECOND

#: The lease of a stream that is not declared yet, in microseconds.
DEFAULT_LEASE = 15 * SECOND

#: Longer than any claim is held, in microseconds.
FOREVER = 1 << 52


class Lease(msgspec.Struct, frozen=True):
    """A lease in microseconds; None: the stream is not declared yet.

    When a lease is shortened, the longer one still holds for its own length, so that a worker which holds a
    claim learns of the change before another worker can take the message.
    """

    us: int | None = None
    longer_us: int = 0
    longer_until_us: int = 0

    @classmethod
    def stored(cls, us: int | None, longer_us: int, longer_until_us: int) -> Lease:
        """The lease that a store has, within bounds: other programs may have written any number."""
        bounded = None if us is None else min(max(us, 0), FOREVER)
        return cls(bounded, min(max(longer_us, 0), FOREVER), min(max(longer_until_us, 0), 2 * FOREVER))

    def changed(self, us: int, now_us: int) -> Lease:
        """The lease after a worker asked for `us`."""
        held_us = self.at(now_us)
        if self.us is None or us >= held_us:
            return Lease(us)
        until_us = now_us + self.us if us < self.us else 0
        return Lease(us, held_us, max(until_us, self.longer_until_us))

    def restarted(self, now_us: int) -> Lease:
        """The lease with which no claim runs out for one lease from now."""
        return Lease(self.us, FOREVER, now_us + (DEFAULT_LEASE if self.us is None else self.us))

    def at(self, now_us: int) -> int:
        """The lease of a claim now, in microseconds."""
        us = DEFAULT_LEASE if self.us is None else self.us
        return max(us, self.longer_us) if now_us < self.longer_until_us else us
