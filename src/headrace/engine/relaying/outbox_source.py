"""An outbox as a relay sees it: of streams of the store, or of a database of the user."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from headrace.core.messages.message import Stream
from headrace.core.outbox.outbox import OutgoingBatch
from headrace.engine.streams import StreamRouter

#: Seconds between two looks into outboxes of the store. This is for what other workers left: what this worker
#: writes there is relayed at once.
LOOK_EVERY: Final = 5.0


class OutboxSource(Protocol):
    """Gives batches, and removes those that were handed on."""

    @property
    def names(self) -> Sequence[str]:
        """For people: the outboxes in it, each by what it is the outbox of."""
        ...

    @property
    def look_every(self) -> float:
        """Seconds between two looks while it is empty."""
        ...

    @property
    def waits_for_room(self) -> bool:
        """Whether a message stays in the outbox while its queue is full. Otherwise it becomes a dead
        letter."""
        ...

    async def take(self, *, relay: str, limit: int, hold_us: int) -> list[OutgoingBatch]: ...

    async def hand_on(self, batch: OutgoingBatch, *, kept: Sequence[int] = ()) -> None: ...

    async def added(self) -> None:
        """Wait until something may have been added since the last `take`."""
        ...

    async def is_empty(self) -> bool: ...

    async def close(self) -> None: ...


class StreamOutboxes:
    """The outboxes of some streams of the store."""

    look_every = LOOK_EVERY
    waits_for_room = True

    def __init__(self, backend: StreamRouter, streams: Sequence[Stream]) -> None:
        self.streams = streams
        self._backend = backend

    @property
    def names(self) -> list[str]:
        return [stream.name for stream in self.streams]

    async def take(self, *, relay: str, limit: int, hold_us: int) -> list[OutgoingBatch]:
        return await self._backend.take_outgoing(self.streams, relay=relay, limit=limit, hold_us=hold_us)

    async def hand_on(self, batch: OutgoingBatch, *, kept: Sequence[int] = ()) -> None:
        await self._backend.hand_on(batch, kept=kept)

    async def added(self) -> None:
        """What this worker adds wakes its relay already."""
        await asyncio.Event().wait()

    async def is_empty(self) -> bool:
        return not any(record.origin in self.streams for record in await self._backend.outboxes())

    async def close(self) -> None:
        """The store is closed by the app."""
