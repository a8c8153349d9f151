"""The outboxes of streams: gives what settlements forward to relays, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import msgspec

from headrace.core.messages.message import Message, Stream
from headrace.core.messages.outgoing import Outgoing, encode_outgoing
from headrace.core.outbox.outbox import Outboxes, OutboxRecord, OutgoingBatch, Refusal
from headrace.stores.postgres.limits.ordered_jobs import line_of
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.rows.outbox_table import OF_STREAMS, TakenBatch
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import limit_statements, message_statements, outbox_statements
from headrace.stores.postgres.steps import PostgresSteps
from headrace.stores.sql.lanes import DEAD, FIRST_PRIORITY
from headrace.stores.sql.limits.budgets import stored_constraints
from headrace.stores.sql.limits.order_keys import stored_key

_encode = msgspec.msgpack.Encoder().encode


async def write_outgoing(
    transaction: PostgresTransaction, forwards: Iterable[tuple[int, tuple[Outgoing, ...]]]
) -> None:
    """Write outgoing messages, each with the number of the stream whose outbox takes them."""
    rows = [(stream, encode_outgoing(each)) for stream, outgoing in forwards for each in outgoing]
    if rows:
        await transaction.change(outbox_statements.ADD, (*columns(rows), transaction.now_us))


class PostgresOutboxes(PostgresSteps, Outboxes):
    async def take_outgoing(
        self, streams: Sequence[Stream], *, relay: str, limit: int, hold_us: int
    ) -> list[OutgoingBatch]:
        names = (self._namespace, [stream.kind for stream in streams], [stream.name for stream in streams])
        found = await self._read(lambda connection: connection.rows(outbox_statements.FIND, names))

        async def take(transaction: PostgresTransaction) -> list[OutgoingBatch]:
            wanted = TakenBatch(relay, limit, hold_us, transaction.now_us)
            batches = [
                await OF_STREAMS.take(transaction, number, streams[position - 1], wanted)
                for position, number in found
            ]
            return [batch for batch in batches if batch is not None]

        return await self._write(take, durable=False) if found else []

    async def hand_on(self, batch: OutgoingBatch, *, kept: Sequence[int] = ()) -> None:
        async def hand_on(transaction: PostgresTransaction) -> None:
            number = None if batch.origin is None else await transaction.find(batch.origin)
            if number is not None:
                await OF_STREAMS.hand_on(transaction, number, batch, frozenset(kept))

        await self._write(hand_on)

    async def outboxes(self) -> list[OutboxRecord]:
        return await self._read_at(partial(_list, namespace=self._namespace))

    async def bury(self, stream: Stream, refusals: Sequence[Refusal]) -> None:
        await self._write(lambda transaction: _bury(transaction, stream, refusals))


async def _list(connection: PostgresConnection, now_us: int, namespace: str) -> list[OutboxRecord]:
    rows = await connection.rows(outbox_statements.LIST, (namespace,))
    return [OutboxRecord(Stream(kind, name), count, now_us - at_us) for kind, name, count, at_us in rows]


async def _bury(transaction: PostgresTransaction, stream: Stream, refusals: Sequence[Refusal]) -> None:
    number = await transaction.stream(stream, draining=True)
    ids = [refusal.message.id for refusal in refusals]
    await transaction.change(message_statements.FORGET_PAST_END_RECORDS, (number, ids, transaction.now_us))
    rows = [
        (
            message.id,
            message.task,
            FIRST_PRIORITY + message.priority,
            message.priority,
            message.child,
            *((message.unique.key, message.unique.until) if message.unique else (None, None)),
            message.body,
            refusal.reason.value,
            _encode(refusal.failure),
            *_line_columns(stream, message),
        )
        for refusal in refusals
        for message in (refusal.message,)
    ]
    values = (number, transaction.now_us, *columns(rows))
    added = await transaction.rows(outbox_statements.BURY, values) if rows else []
    transaction.count(number, DEAD, len(added))
    if any([row[-2] is not None for row in rows]):
        await transaction.change(limit_statements.NOTE_LINES, (number,))


def _line_columns(stream: Stream, message: Message) -> tuple[str | None, str | None]:
    """The constraints, which get their number at a replay, and the order key."""
    line = line_of(message) if stream.kind == "queue" else None
    return (None, None) if line is None else (stored_constraints(line), stored_key(message.key))
