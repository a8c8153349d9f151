"""The outbox of a stream: what settlements forward to other streams, until a relay has appended it there."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.store import OpenBatch, OutboxRecord, OutgoingBatch, OutgoingEntry, Stream


class OutboxState:
    """Steps give the epoch, so that every process that replays the journal has the same."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.entries: list[tuple[int, bytes]] = []  # when each was written, and its content
        self.batch: OpenBatch | None = None  # the batch under way

    def is_free(self, relay: str, hold_us: int, now_us: int) -> bool:
        """Whether this relay can take a batch."""
        held = self.batch is not None and self.batch.is_held(relay, hold_us, now_us)
        return bool(self.entries) and not held

    def take(self, relay: str, limit: int, hold_us: int, epoch: str, now_us: int) -> OutgoingBatch:
        sizes = [len(content) for _, content in self.entries]
        batch = (self.batch or OpenBatch(epoch)).taken(relay, now_us + hold_us, sizes, limit)
        self.batch = batch
        entries = [OutgoingEntry(content, now_us - at_us) for at_us, content in self.entries[: batch.count]]
        return OutgoingBatch(self.stream, batch.producer, batch.number, tuple(entries))

    def hand_on(self, producer: str, number: int, kept: Sequence[int]) -> None:
        batch = self.batch
        if batch is None or not batch.count or (batch.producer, batch.number) != (producer, number):
            return
        self.entries = [self.entries[index] for index in sorted(kept)] + self.entries[batch.count :]
        self.batch = batch.handed_on()

    def record(self, now_us: int) -> OutboxRecord:
        return OutboxRecord(self.stream, len(self.entries), now_us - self.entries[0][0])
