"""The outboxes of streams: gives what settlements forward to relays, batch by batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Stream
from headrace.core.outbox.outbox import (
    OUTGOING_BYTES,
    Outboxes,
    OutboxRecord,
    OutgoingBatch,
    OutgoingEntry,
    Refusal,
)
from headrace.core.rules.outbox import OpenBatch
from headrace.stores.redis.client import ReplyError
from headrace.stores.redis.client.connection import Word
from headrace.stores.redis.keys import stream_of
from headrace.stores.redis.scripts import BURY_REFUSED, HAND_ON, TAKE_OUTGOING
from headrace.stores.redis.server.labels import labels_of
from headrace.stores.redis.server.server import RedisServer

_encode = msgspec.msgpack.Encoder().encode


class RedisOutboxes(Outboxes):
    _store: RedisServer

    async def take_outgoing(
        self, streams: Sequence[Stream], *, relay: str, limit: int, hold_us: int
    ) -> list[OutgoingBatch]:
        bounds: tuple[Word, ...] = (relay, limit, OUTGOING_BYTES, hold_us)
        taken = await asyncio.gather(*[self._take(stream, bounds) for stream in streams])
        return [batch for batch in taken if batch is not None]

    async def _take(self, stream: Stream, bounds: Sequence[Word]) -> OutgoingBatch | None:
        queue = self._store.queue(stream)
        epoch = new_id()  # one for each outbox: the target takes batches of one producer for repeats
        try:
            answer = await self._store.run(queue.call(TAKE_OUTGOING, *bounds, epoch))
        except BackendUnavailable as error:
            self._store.pass_over(queue, error)
            return None
        if not answer:
            return None
        held, number, *rest = answer
        entries = tuple(map(OutgoingEntry, rest[1::2], rest[::2]))
        return OutgoingBatch(stream, OpenBatch(held.decode()).producer, number, entries)

    async def hand_on(self, batch: OutgoingBatch, *, kept: Sequence[int] = ()) -> None:
        if batch.origin is not None:
            epoch = batch.producer.removeprefix(OpenBatch("").producer)
            call = self._store.queue(batch.origin).call(HAND_ON, epoch, batch.number, *sorted(kept))
            await self._store.run(call)

    async def outboxes(self) -> list[OutboxRecord]:
        streams = [stream_of(label) for label in await labels_of(self._store)]
        if not streams:
            return []
        keys = [self._store.queue(stream).keys.outbox for stream in streams]
        asked = [
            command for key in keys for command in (("XLEN", key), ("XRANGE", key, "-", "+", "COUNT", 1))
        ]
        answers = await self._store.commands(*asked, tolerates=lambda reply: isinstance(reply, ReplyError))
        now_us = self._store.now_us()
        return [
            OutboxRecord(stream, length, max(0, now_us - _written_us(first, now_us)))
            for stream, length, first in zip(streams, answers[::2], answers[1::2], strict=True)
            if isinstance(length, int) and length
        ]

    async def bury(self, stream: Stream, refusals: Sequence[Refusal]) -> None:
        queue = self._store.queue(stream)
        await self._store.list_streams(stream, relayed=True)
        # One call for each: a body may be as large as a script may be.
        await self._store.run_all([queue.call(BURY_REFUSED, *_words(refusal)) for refusal in refusals])


def _words(refusal: Refusal) -> tuple[Word, ...]:
    message, unique = refusal.message, refusal.message.unique
    key = f"{unique.until[0]}{unique.key}" if unique else ""
    head: tuple[Word, ...] = (message.id, message.task, message.body, message.priority, int(message.child))
    return (*head, key, refusal.reason.value, _encode(refusal.failure))


def _written_us(rows: Any, now_us: int) -> int:
    """When the first entry was written."""
    at = rows[0][1][1] if isinstance(rows, list) and rows else b""
    return int(at) if at.isdigit() else now_us
