"""The verbs about history."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.history.entry import HistoryEntry
from headrace.core.history.recording import TRIMMED, Recording, RingLimits, cursor_of, key_of
from headrace.core.messages.message import Stream
from headrace.core.records.record import JobStatus, Page
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.rows.history import write_history
from headrace.stores.sqlite.statements import history_statements, stream_statements
from headrace.stores.sqlite.statements.bulk_binding import listed
from headrace.stores.sqlite.threads.store_threads import StoreThreads
from headrace.stores.sqlite.threads.transaction import Transaction


def record(
    transaction: Transaction, stream: Stream, entries: Sequence[HistoryEntry], limits: RingLimits
) -> None:
    found = transaction.find(stream)  # a worker has declared it
    if found is None:
        return
    write_history(transaction, [(found.number, entry) for entry in entries])
    _trim(transaction, found.number, limits, len(entries) + TRIMMED)


def _trim(transaction: Transaction, stream: int, limits: RingLimits, most: int) -> None:
    connection = transaction.connection
    entries, size = connection.row(history_statements.SIZE, (stream,)) or (0, 0)
    surplus = entries - (entries if limits.entries is None else limits.entries)
    excess = size - (size if limits.size is None else limits.size)
    if surplus <= 0 and excess <= 0:
        return
    oldest: list[str] = []
    for id, its_size in connection.rows(history_statements.OLDEST, (stream, most)):
        if surplus <= 0 and excess <= 0:
            break
        oldest.append(id)
        surplus, excess = surplus - 1, excess - its_size
    connection.change(history_statements.FORGET, (stream, listed(oldest)))


def list_history(
    connection: Connection,
    namespace: str,
    stream: Stream,
    wanted: tuple[str | None, str | None],
    key: tuple[int, str],
    limit: int,
    now_us: int,
) -> Page[HistoryEntry]:
    number = _number(connection, namespace, stream)
    if number is None:
        return Page(())
    rows = connection.rows(history_statements.LIST, (number, *key, now_us, *wanted, limit + 1))
    found = [HistoryEntry(*row) for row in rows]
    if len(found) > limit:
        return Page(tuple(found[:limit]), cursor_of(found[limit - 1].key))
    last = connection.row(history_statements.LAST_SCANNED, (number, *key))
    return Page(tuple(found), cursor_of((last[0], last[1])) if last else None)


def find_history(
    connection: Connection, namespace: str, stream: Stream, ids: Sequence[str], now_us: int
) -> list[HistoryEntry | None]:
    number = _number(connection, namespace, stream)
    if number is None:
        return [None] * len(ids)
    rows = connection.rows(history_statements.FIND, (number, listed(ids), now_us))
    found = {row[0]: HistoryEntry(*row) for row in rows}
    return [found.get(id) for id in ids]


def _number(connection: Connection, namespace: str, stream: Stream) -> int | None:
    row = connection.row(stream_statements.FIND_STREAM, (namespace, stream.kind, stream.name))
    return None if row is None else row[0]


class SqliteHistory(StoreThreads, Recording):
    async def record_history(
        self, stream: Stream, entries: Sequence[HistoryEntry], limits: RingLimits
    ) -> None:
        await self._write(
            lambda transaction: record(transaction, stream, entries, limits),
            durable=False,
            weight=len(entries),
        )

    async def history(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[HistoryEntry]:
        wanted = (None if status is None else status.value, task)
        return await self._read(list_history, stream, wanted, key_of(cursor), limit, self._clock.now_us())

    async def find_history(self, stream: Stream, ids: Sequence[str]) -> list[HistoryEntry | None]:
        return await self._read(find_history, stream, ids, self._clock.now_us())
