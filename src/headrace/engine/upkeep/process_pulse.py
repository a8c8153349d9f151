"""Tells a process that stood still from an event loop that was blocked."""

from __future__ import annotations

from headrace.core.runtime.clock import SystemClock, microseconds

from .leases import Leases

#: In a gap of this share of a lease, a lease can run out: its last renewal was some time before the gap.
LONG_GAP = 0.8


class ProcessPulse:
    """The thread of the lease renewal notes each of its rounds here. A stopped process and a sleeping machine
    leave a long gap between two rounds; an event loop that a handler blocks leaves none."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._elapsed_us = SystemClock().elapsed_us
        self._noted_us: int | None = None
        self._stood_still_us: int | None = None  # the end of the last long gap

    def note(self) -> None:
        """A round begins. Called in one thread."""
        now_us = self._elapsed_us()
        if self._is_long(now_us):
            self._stood_still_us = now_us
        self._noted_us = now_us

    def stood_still(self, since_us: int) -> bool:
        """Whether a long gap ended after `since_us`, or lasts until now. True when no round was noted yet."""
        stood_still_us = self._stood_still_us
        return self._is_long(self._elapsed_us()) or (
            stood_still_us is not None and stood_still_us >= since_us
        )

    def _is_long(self, now_us: int) -> bool:
        noted_us = self._noted_us
        return noted_us is None or now_us - noted_us > microseconds(LONG_GAP * self._leases.shortest)
