"""The leases of a worker's queues. They belong to the queues: another worker may change them at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.core.backend import Backend
from headrace.core.clock import SECOND, microseconds
from headrace.core.message import Source, Stream
from headrace.core.signals import LeaseChanged

from .emitter import Emitter


class Leases:
    """Asks for a lease, and calls who follows with the shortest one, in seconds, when that has changed."""

    def __init__(self, sources: Sequence[Source], lease: float) -> None:
        self._sources = sources
        self._shortest = microseconds(lease)
        self._leases = dict.fromkeys((source.stream for source in sources), self._shortest)
        self._followers: tuple[Callable[[float], None], ...] = ()

    async def ask_for(self, backend: Backend, emitter: Emitter) -> None:
        """Make the queues claimable under this lease; where it was another, it now holds for all."""
        for source in self._sources:
            previous = await backend.ensure(source, self._shortest)
            if previous is not None:
                lease = self._shortest / SECOND
                emitter.emit(LeaseChanged(source.stream.name, previous / SECOND, lease))

    def followed_by(self, *followers: Callable[[float], None]) -> None:
        self._followers = followers

    def heed(self, leases: Mapping[Stream, int]) -> None:
        """These are the leases now, as far as they are named, in microseconds."""
        self._leases.update((stream, us) for stream, us in leases.items() if stream in self._leases)
        shortest = min(self._leases.values(), default=self._shortest)
        if shortest != self._shortest:
            self._shortest = shortest
            for follow in self._followers:
                follow(shortest / SECOND)
