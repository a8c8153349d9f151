"""The outbox of a stream. The caller holds the lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from headrace.core.messages.message import Stream
from headrace.core.messages.outgoing import Outgoing, encode_outgoing
from headrace.core.outbox.outbox import OutgoingBatch, OutgoingEntry
from headrace.core.rules.outbox import new_batches


class OutboxState:
    """The contents with the times when they were written, and the batch under way."""

    def __init__(self) -> None:
        self.entries: deque[tuple[int, bytes]] = deque()
        self._open = new_batches()

    def put(self, forwards: Iterable[Outgoing], now_us: int) -> None:
        self.entries.extend((now_us, encode_outgoing(each)) for each in forwards)

    def take(self, origin: Stream, relay: str, limit: int, hold_us: int, now_us: int) -> OutgoingBatch | None:
        if not self.entries or self._open.is_held(relay, hold_us, now_us):
            return None
        sizes = (len(content) for _, content in self.entries)
        self._open = self._open.taken(relay, now_us + hold_us, sizes, limit)
        entries = [
            OutgoingEntry(content, now_us - at_us)
            for at_us, content in islice(self.entries, self._open.count)
        ]
        return OutgoingBatch(origin, self._open.producer, self._open.number, tuple(entries))

    def hand_on(self, batch: OutgoingBatch, kept: Sequence[int]) -> None:
        under_way = (self._open.producer, self._open.number) == (batch.producer, batch.number)
        if not under_way or not self._open.count:
            return
        taken = [self.entries.popleft() for _ in range(self._open.count)]
        self.entries.extendleft(taken[index] for index in sorted(kept, reverse=True))
        self._open = self._open.handed_on()
