"""Which parts streams have: a column of the table of streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.core.layout import Layout, Layouts, decode_layout, encode_layout
from headrace.core.message import Message, Stream
from headrace.core.orders import LayoutOrder

from .appends import find_holders
from .connection import Connection
from .desk import Desk
from .transaction import Transaction

READ = "SELECT layout FROM headrace_streams WHERE namespace = ? AND kind = ? AND name = ?"
WRITE = "UPDATE headrace_streams SET layout = ? WHERE stream = ?"
SEAL = "UPDATE headrace_streams SET sealed = 1 WHERE stream = ?"

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

    async def propose(self, stream: Stream, parts: int) -> Layout:
        return await self._change(stream, lambda stored, _: stored.with_proposal(parts))

    async def seal(self, part: Stream) -> None:
        def seal(transaction: Transaction) -> None:
            number = transaction.stream(part, established=False).number
            transaction.connection.change(SEAL, (number,))

        await self._write(seal)

    async def adopt(self, stream: Stream, expected: Layout) -> Layout:
        def adopt(stored: Layout, now_us: int) -> Layout:
            return stored.with_adoption(now_us) if stored == expected else stored

        return await self._change(stream, adopt)

    async def forget(self, stream: Stream, number: int) -> Layout:
        return await self._change(stream, lambda stored, _: stored.without(number))

    async def drop(self, part: Stream) -> None:
        await self._write(lambda transaction: _drop(transaction, part))

    async def restore(self, stream: Stream, layout: Layout) -> Layout:
        return await self._change(
            stream, lambda stored, _: layout if stored.is_older_than(layout) else stored
        )

    async def holders(self, stream: Stream, messages: Sequence[Message]) -> list[str | None]:
        return await self._write(
            lambda transaction: find_holders(transaction, stream, list(messages)), durable=False
        )

    async def _change(self, stream: Stream, change: Callable[[Layout, int], Layout]) -> Layout:
        def run(transaction: Transaction) -> Layout:
            stored = _read(transaction.connection, transaction.namespace, stream)
            return _store(transaction, stream, stored, change(stored, transaction.now_us))

        return await self._write(run)


def _read(connection: Connection, namespace: str, stream: Stream) -> Layout:
    row = connection.row(READ, (namespace, stream.kind, stream.name))
    return decode_layout(row[0] if row else None)


def _store(transaction: Transaction, stream: Stream, stored: Layout, layout: Layout) -> Layout:
    if layout != stored:
        number = transaction.stream(stream, established=False).number
        transaction.connection.change(WRITE, (encode_layout(layout), number))
        transaction.announce(LayoutOrder(stream))
    return layout


def _drop(transaction: Transaction, part: Stream) -> None:
    found = transaction.find(part)
    if found is not None:
        for statement in DROP:
            transaction.connection.change(statement, (found.number,))
