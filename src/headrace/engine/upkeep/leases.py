"""The leases of a worker's queues. They belong to the queues: another worker may change them at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.core.signals import LeaseChanged
from headrace.core.values.bounds import LONGEST_US
from headrace.engine.app_loop.retrying import with_retries
from headrace.engine.emitter import Emitter
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.streams import StreamRouter

#: Seconds. Below this a worker would do nothing but renew. A stranger may have stored or announced any lease.
SHORTEST_LEASE: Final = 0.01


class Leases:
    """Asks for a lease, and knows the shortest that holds. Other parts hear when that has changed."""

    def __init__(self, served: ServedStreams, lease: float) -> None:
        self._served = served
        self._asked = self._shortest = microseconds(lease)
        self.shortest = self._shortest / SECOND  # in seconds
        self._leases = dict.fromkeys(served.claimed, self._shortest)
        self._on_change: list[Callable[[], None]] = []

    async def ask_for(self, backend: StreamRouter, emitter: Emitter) -> None:
        """Make the queues claimable under this lease; where it was another, it now holds for all."""
        for stream in self._served.queues:
            await self.add(stream, backend, emitter)

    async def add(self, stream: Stream, backend: StreamRouter, emitter: Emitter) -> None:
        """The same for one that comes later."""
        previous = await with_retries(lambda: backend.declare_stream(stream, self._asked))
        self._leases.setdefault(stream, self._asked)
        if previous is not None:
            emitter.emit(LeaseChanged(stream.name, previous / SECOND, self._asked / SECOND))

    def on_change(self, heard: Callable[[], None]) -> None:
        """Call this when the shortest lease has become another."""
        self._on_change.append(heard)

    def changed(self, leases: Mapping[Stream, int]) -> None:
        """These are the leases now, as far as they are named, in microseconds."""
        for stream, us in leases.items():
            if stream in self._leases:
                self._leases[stream] = max(microseconds(SHORTEST_LEASE), min(us, LONGEST_US))
        shortest = min(self._leases.values(), default=self._shortest)
        if shortest != self._shortest:
            self._shortest = shortest
            self.shortest = shortest / SECOND
            for heard in self._on_change:
                heard()
