"""Reads and writes which parts streams have: a column of the table of streams."""

from __future__ import annotations

from headrace.core.messages.message import Stream
from headrace.core.records.control import LayoutNotice
from headrace.core.rules.layout import WHOLE, Layout, decode_layout, encode_layout
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.threads.store_threads import StoreThreads
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.topics.log import find_log

READ = "SELECT layout FROM headrace_streams WHERE namespace = ? AND kind = ? AND name = ?"
WRITE = "UPDATE headrace_streams SET layout = ?, sealed = ? WHERE stream = ?"


class SqliteLayouts(StoreThreads):
    async def layout(self, stream: Stream) -> Layout:
        return await self._read(_read, stream)

    async def swap_layout(self, stream: Stream, expected: Layout, new: Layout) -> Layout:
        return await self._write(lambda transaction: _swap(transaction, stream, expected, new))


def _read(connection: Connection, namespace: str, stream: Stream) -> Layout:
    row = connection.row(READ, (namespace, stream.kind, stream.name))
    return decode_layout(row[0] if row else None)


def _swap(transaction: Transaction, stream: Stream, expected: Layout, new: Layout) -> Layout:
    stored = _read(transaction.connection, transaction.namespace, stream)
    if stored != expected or new == stored or _is_fixed(transaction, stream, stored):
        return stored
    number = transaction.stream(stream, established=False).number
    transaction.connection.change(WRITE, (encode_layout(new), int(new.sealed), number))
    transaction.announce(LayoutNotice(stream))
    return new


def _is_fixed(transaction: Transaction, stream: Stream, stored: Layout) -> bool:
    if stream.kind != "topic" or stored != WHOLE:
        return False
    return find_log(transaction.connection, transaction.namespace, stream.name) is not None
