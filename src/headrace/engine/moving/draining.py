"""Waits until nothing runs in a sealed store, and until its outboxes are empty."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Stream
from headrace.core.records.record import JobStatus, Record
from headrace.core.store import Store
from headrace.engine.emitter import Emitter
from headrace.engine.relaying.outbox_source import StreamOutboxes
from headrace.engine.relaying.relay import Relay
from headrace.engine.streams import StreamRouter

#: Seconds between two looks.
LOOK_EVERY: Final = 0.25

#: Messages that are recovered in one step, when the worker that ran them is gone.
RECOVERED: Final = 500

#: Running messages that are named.
NAMED: Final = 5


class Remaining(msgspec.Struct, frozen=True):
    """What the move waits for: running messages, and messages in the outboxes of streams."""

    running: int = 0
    outgoing: int = 0
    named: tuple[Record, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.running or self.outgoing)

    def __str__(self) -> str:
        parts = [f"{self.running:,} running"] if self.running else []
        parts += [f"{self.outgoing:,} in outboxes"] if self.outgoing else []
        names = ", ".join(f"{each.task or each.id} ({each.id}) of {each.worker}" for each in self.named)
        more = ", …" if names and self.running > len(self.named) else ""
        return " and ".join(parts) + (f": {names}{more}" if names else "")


class NotDrained(BackendUnavailable):
    """Something still ran when the time was over."""


class Draining:
    def __init__(self, store: Store, waits: Callable[[Remaining], None]) -> None:
        self._store = store
        self._router = StreamRouter(store)
        self._waits = waits
        self._relay_name = f"move-{new_id()}"

    async def run(self, limit: float | None) -> None:
        """Return when nothing is left, or raise after `limit` seconds."""
        until = None if limit is None else time.monotonic() + limit
        while remaining := await self._help():
            self._waits(remaining)
            if until is not None and time.monotonic() >= until:
                raise NotDrained(
                    f"not moved yet: {remaining}. The source stays sealed, and nothing is lost. Run the"
                    " command again to go on waiting, or with --cancel to use the source again"
                )
            await asyncio.sleep(LOOK_EVERY)

    async def _help(self) -> Remaining:
        """Do what workers may no longer be there to do, and look what is left."""
        streams = await self._store.streams()
        queues = [stream for stream in streams if stream.kind != "topic"]
        if queues:
            await self._store.reclaim(queues, limit=RECOVERED)
        await self._relay(queues)
        counts = [(stream, await self._store.counts(stream)) for stream in queues]
        running = [(stream, each.running) for stream, each in counts if each.running]
        outgoing = sum(record.waiting for record in await self._store.outboxes())
        return Remaining(sum(number for _, number in running), outgoing, await self._name(running))

    async def _relay(self, streams: list[Stream]) -> None:
        if not await self._store.outboxes():
            return
        source = StreamOutboxes(self._router, streams)
        # What found no room goes to its queue, too: while the store drains nothing makes room. But first a
        # batch that another relay has begun is ended as it was begun.
        for limited in (True, False):
            relay = Relay(
                source, self._router, name=self._relay_name, topics={}, emitter=Emitter(), limited=limited
            )
            while await relay.relay_some() is None:
                pass

    async def _name(self, running: list[tuple[Stream, int]]) -> tuple[Record, ...]:
        found: list[Record] = []
        for stream, _ in running:
            page = await self._store.messages(stream, status=JobStatus.RUNNING, limit=NAMED)
            found += page.items
        return tuple(found[:NAMED])
