"""The leases of a worker's queues. They belong to the queues: another worker may change them at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.core.errors import RequestRefused
from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.core.signals import BackendError, LeaseChanged
from headrace.core.values.bounds import LONGEST_US
from headrace.engine.app_loop.retrying import with_retries
from headrace.engine.emitter import Emitter
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.service import LONGEST_BACKOFF
from headrace.engine.streams import StreamRouter

#: Seconds. With less, a worker would do nothing but renew. Another program may have stored any lease.
SHORTEST_LEASE: Final = 0.01


class Leases:
    """Requests a lease, and knows the shortest current lease. Calls other parts when that changes."""

    def __init__(self, served: ServedStreams, lease: float) -> None:
        self._served = served
        self._asked = self._shortest = microseconds(lease)
        self.shortest = self._shortest / SECOND  # in seconds
        self._leases = dict.fromkeys(served.claimed, self._shortest)
        self._on_change: list[Callable[[], None]] = []

    async def ask_for(self, backend: StreamRouter, emitter: Emitter) -> None:
        """Declare the queues with this lease. It replaces an earlier lease, for all workers. A queue whose
        keys are damaged does not keep the worker from the others."""
        refused: dict[Stream, RequestRefused] = {}
        for stream in self._served.queues:
            try:
                await self.add(stream, backend, emitter)
            except RequestRefused as error:
                refused[stream] = error
        for stream, refusal in refused.items():
            if len(refused) == len(self._served.queues):
                raise refusal
            emitter.emit(BackendError("fetcher", f"queue {stream.name}: {refusal}", LONGEST_BACKOFF))

    async def add(self, stream: Stream, backend: StreamRouter, emitter: Emitter) -> None:
        """Declare one stream with this lease."""
        previous = await with_retries(lambda: backend.declare_stream(stream, self._asked))
        self._leases.setdefault(stream, self._asked)
        if previous is not None:
            emitter.emit(LeaseChanged(stream.name, previous / SECOND, self._asked / SECOND))

    def on_change(self, heard: Callable[[], None]) -> None:
        """Call `heard` when the shortest lease has changed."""
        self._on_change.append(heard)

    def changed(self, leases: Mapping[Stream, int]) -> None:
        """Note current leases, in microseconds. Streams that are not named keep theirs."""
        for stream, us in leases.items():
            if stream in self._leases:
                self._leases[stream] = max(microseconds(SHORTEST_LEASE), min(us, LONGEST_US))
        shortest = min(self._leases.values(), default=self._shortest)
        if shortest != self._shortest:
            self._shortest = shortest
            self.shortest = shortest / SECOND
            for heard in self._on_change:
                heard()
