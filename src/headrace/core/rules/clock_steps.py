"""Steps of a store's clock, and the streams whose leases do not begin anew yet after one."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.messages.message import Stream


class ClockSteps:
    """Workers of one process share a store and its clock, and may serve different streams. The look of one
    worker finds the step, and the leases in the streams of all of them must begin anew."""

    def __init__(self) -> None:
        self._known: set[Stream] = set()
        self._late: set[Stream] = set()
        self._untold_us = 0

    def note(self, streams: Iterable[Stream], stepped_us: int) -> None:
        """What a look at these streams found; 0: no step."""
        self._known.update(streams)
        if stepped_us:
            self._late |= self._known
            self._untold_us += stepped_us

    def concern(self, streams: Iterable[Stream]) -> bool:
        return not self._late.isdisjoint(streams)

    def applied(self, streams: Iterable[Stream]) -> None:
        """Leases in these streams have begun anew."""
        self._late.difference_update(streams)

    def tell(self) -> int:
        """How far the clock was set. The answer to the next call is 0."""
        untold_us, self._untold_us = self._untold_us, 0
        return untold_us
