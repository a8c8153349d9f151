"""The outboxes of streams: gives what settlements forward to relays, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.outbox.outbox import Outboxes, OutboxRecord, OutgoingBatch, OutgoingEntry, Refusal
from headrace.core.rules.outbox import OpenBatch, new_batches, stored_batch
from headrace.stores.sql.lanes import DEAD, FIRST_PRIORITY
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import outbox_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.step import NothingToWrite
from headrace.stores.sqlite.threads.store_threads import StoreThreads
from headrace.stores.sqlite.threads.transaction import Transaction, new_number

_encode = msgspec.msgpack.Encoder().encode


class SqliteOutboxes(StoreThreads, Outboxes):
    """The verbs about outboxes."""

    async def take_outgoing(
        self, streams: Sequence[Stream], *, relay: str, limit: int, hold_us: int
    ) -> list[OutgoingBatch]:
        def nothing(connection: Connection) -> NothingToWrite[list[OutgoingBatch]] | None:
            wanted = (self._namespace, listed(list(streams)))
            return None if connection.value(outbox_statements.IS_ANY, wanted) else NothingToWrite([])

        def take(transaction: Transaction) -> list[OutgoingBatch]:
            batches = [_take(transaction, stream, relay, limit, hold_us) for stream in streams]
            return [batch for batch in batches if batch is not None]

        return await self._write(take, shortcut=nothing, durable=False)

    async def hand_on(self, batch: OutgoingBatch, *, kept: Sequence[int] = ()) -> None:
        await self._write(partial(_hand_on, batch=batch, kept=frozenset(kept)))

    async def outboxes(self) -> list[OutboxRecord]:
        return await self._read(_list, self._clock.now_us())

    async def bury(self, stream: Stream, refusals: Sequence[Refusal]) -> None:
        await self._write(partial(_bury, stream=stream, refusals=refusals))


def _take(
    transaction: Transaction, stream: Stream, relay: str, limit: int, hold_us: int
) -> OutgoingBatch | None:
    found, now_us = transaction.find(stream), transaction.now_us
    if found is None:
        return None
    connection, number = transaction.connection, found.number
    sizes = unlisted(connection.value(outbox_statements.SIZES, (number, limit)))
    before = _open_batch(connection, number)
    if not sizes or before.is_held(relay, hold_us, now_us):
        return None
    taken = before.taken(relay, now_us + hold_us, sizes, limit)
    connection.change(outbox_statements.WRITE_BATCH, (number, _encode(taken)))
    rows = connection.rows(outbox_statements.READ, (number, taken.count))
    entries = tuple(OutgoingEntry(content, now_us - at_us) for at_us, content in rows)
    return OutgoingBatch(stream, taken.producer, taken.number, entries)


def _hand_on(transaction: Transaction, batch: OutgoingBatch, kept: frozenset[int]) -> None:
    found = None if batch.origin is None else transaction.find(batch.origin)
    if found is None:
        return
    connection, number = transaction.connection, found.number
    under_way = _open_batch(connection, number)
    if (under_way.producer, under_way.number) != (batch.producer, batch.number) or not under_way.count:
        return
    rows = connection.rows(outbox_statements.NUMBERS, (number, under_way.count))
    gone = [seq for index, (seq,) in enumerate(rows) if index not in kept]
    connection.change(outbox_statements.FORGET, (listed(gone),))
    connection.change(outbox_statements.WRITE_BATCH, (number, _encode(under_way.handed_on())))


def _open_batch(connection: Connection, stream: int) -> OpenBatch:
    return stored_batch(connection.value(outbox_statements.READ_BATCH, (stream,))) or new_batches()


def _list(connection: Connection, namespace: str, now_us: int) -> list[OutboxRecord]:
    rows = connection.rows(outbox_statements.LIST, (namespace,))
    return [OutboxRecord(Stream(kind, name), count, now_us - at_us) for kind, name, count, at_us in rows]


def _bury(transaction: Transaction, stream: Stream, refusals: Sequence[Refusal]) -> None:
    number = transaction.stream(stream, relayed=True).number
    for refusal in refusals:
        message, unique = refusal.message, refusal.message.unique
        row = (
            *(number, message.id, message.task, transaction.now_us, FIRST_PRIORITY + message.priority),
            *(message.priority, message.body, new_number(), int(message.child)),
            *((unique.key, unique.until) if unique else (None, None)),
            *(refusal.reason.value, _encode(refusal.failure)),
        )
        transaction.count(number, DEAD, transaction.connection.change(outbox_statements.BURY, row))
