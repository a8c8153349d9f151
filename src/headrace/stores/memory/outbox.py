"""The verbs about outboxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from headrace.core.messages.message import Stream
from headrace.core.outbox.outbox import Outboxes, OutboxRecord, OutgoingBatch, Refusal

from .shared_state import SharedState


class MemoryOutboxes(Outboxes):
    _store: SharedState
    _lock: Lock
    _now_us: Callable[[], int]

    async def take_outgoing(
        self, streams: Sequence[Stream], *, relay: str, limit: int, hold_us: int
    ) -> list[OutgoingBatch]:
        with self._lock:
            now_us, outboxes = self._now_us(), self._store.outboxes
            batches = [
                outboxes[stream].take(stream, relay, limit, hold_us, now_us)
                for stream in streams
                if stream in outboxes
            ]
            return [batch for batch in batches if batch is not None]

    async def hand_on(self, batch: OutgoingBatch, *, kept: Sequence[int] = ()) -> None:
        with self._lock:
            outbox = None if batch.origin is None else self._store.outboxes.get(batch.origin)
            if outbox is not None:
                outbox.hand_on(batch, kept)

    async def outboxes(self) -> list[OutboxRecord]:
        with self._lock:
            now_us = self._now_us()
            return [
                OutboxRecord(stream, len(outbox.entries), now_us - outbox.entries[0][0])
                for stream, outbox in self._store.outboxes.items()
                if outbox.entries
            ]

    async def bury(self, stream: Stream, refusals: Sequence[Refusal]) -> None:
        with self._lock:
            state, now_us = self._store.stream_state(stream), self._now_us()
            for refusal in refusals:
                state.bury(refusal.message, refusal.reason, refusal.failure, now_us)
