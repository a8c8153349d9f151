"""Which parts streams have: a column of the table of streams."""

from __future__ import annotations

from headrace.core.layout import WHOLE, Layout, Layouts, decode_layout, encode_layout
from headrace.core.message import Stream
from headrace.core.orders import LayoutOrder

from .connection import Connection
from .desk import Desk
from .log import find_log
from .transaction import Transaction

READ = "SELECT layout FROM headrace_streams WHERE namespace = ? AND kind = ? AND name = ?"
WRITE = "UPDATE headrace_streams SET layout = ?, sealed = ? WHERE stream = ?"

#: What a part that is empty may leave behind, the stream itself last.
DROP = (
    "DELETE FROM headrace_producers WHERE stream = ?",
    "DELETE FROM headrace_unique_keys WHERE stream = ?",
    "DELETE FROM headrace_messages WHERE stream = ?",
    "DELETE FROM headrace_events WHERE stream = ?",
    "DELETE FROM headrace_groups WHERE topic = ?",
    "DELETE FROM headrace_topics WHERE stream = ?",
    "DELETE FROM headrace_streams WHERE stream = ?",
)


class SqliteLayouts(Desk, Layouts):
    async def layout(self, stream: Stream) -> Layout:
        return await self._read(lambda connection: _read(connection, self._namespace, stream))

    async def swap_layout(self, stream: Stream, expected: Layout, new: Layout) -> Layout:
        return await self._write(lambda transaction: _swap(transaction, stream, expected, new))

    async def drop(self, part: Stream) -> None:
        await self._write(lambda transaction: _drop(transaction, part))


def _read(connection: Connection, namespace: str, stream: Stream) -> Layout:
    row = connection.row(READ, (namespace, stream.kind, stream.name))
    return decode_layout(row[0] if row else None)


def _swap(transaction: Transaction, stream: Stream, expected: Layout, new: Layout) -> Layout:
    stored = _read(transaction.connection, transaction.namespace, stream)
    if stored != expected or new == stored or _is_fixed(transaction, stream, stored):
        return stored
    number = transaction.stream(stream, established=False).number
    transaction.connection.change(WRITE, (encode_layout(new), int(new.sealed), number))
    transaction.announce(LayoutOrder(stream))
    return new


def _is_fixed(transaction: Transaction, stream: Stream, stored: Layout) -> bool:
    if stream.kind != "topic" or stored != WHOLE:
        return False
    return find_log(transaction.connection, transaction.namespace, stream.name) is not None


def _drop(transaction: Transaction, part: Stream) -> None:
    found = transaction.find(part)
    if found is not None:
        for statement in DROP:
            transaction.connection.change(statement, (found.number,))
