"""The verbs about history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from headrace.core.encoding.decoding import text_of
from headrace.core.history.entry import HistoryEntry
from headrace.core.history.recording import TRIMMED, Recording, RingLimits, cursor_of, key_of
from headrace.core.messages.message import Stream
from headrace.core.records.record import JobStatus, Page
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import history_statements
from headrace.stores.postgres.steps import PostgresSteps

#: More than any history holds, for a limit that is not there.
_ANY: Final = 1 << 60


async def write_history(
    transaction: PostgresTransaction, entries: Iterable[tuple[int, HistoryEntry]]
) -> None:
    """Write entries, each with the number of its stream. An entry replaces the one with its id. They are
    written in the order of their ids, so that two transactions do not wait for each other."""
    latest = {(stream, entry.id): entry for stream, entry in entries}
    rows = [
        (
            *(stream, id, entry.ended_us, entry.task.encode(errors="replace"), entry.status),
            *(entry.until_us or None, entry.size, entry.content),
        )
        for (stream, id), entry in sorted(latest.items(), key=lambda item: item[0])
    ]
    if rows:
        await transaction.change(history_statements.WRITE, columns(rows))


async def record(
    transaction: PostgresTransaction, stream: Stream, entries: Sequence[HistoryEntry], limits: RingLimits
) -> None:
    number = await transaction.find(stream)
    if number is None:
        return
    await write_history(transaction, [(number, entry) for entry in entries])
    if limits != RingLimits():
        await _trim(transaction, number, limits, len(entries) + TRIMMED)


async def _trim(transaction: PostgresTransaction, stream: int, limits: RingLimits, most: int) -> None:
    bounds = [_ANY if limit is None else limit for limit in (limits.entries, limits.size)]
    beyond = await transaction.row(history_statements.FIRST_BEYOND, (stream, *bounds))
    if beyond is not None:
        await transaction.change(history_statements.TRIM, (stream, *beyond, most))


class PostgresHistory(PostgresSteps, Recording):
    async def record_history(
        self, stream: Stream, entries: Sequence[HistoryEntry], limits: RingLimits
    ) -> None:
        await self._write(lambda transaction: record(transaction, stream, entries, limits), durable=False)

    async def history(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[HistoryEntry]:
        place = (self._namespace, stream.kind, stream.name, *key_of(cursor))
        wanted = (status and status.value, None if task is None else task.encode(errors="replace"))

        async def read(connection: PostgresConnection, now_us: int) -> Page[HistoryEntry]:
            rows = await connection.rows(history_statements.LIST, (*place, now_us, *wanted, limit + 1))
            found = [_entry(*row) for row in rows]
            if len(found) > limit:
                return Page(tuple(found[:limit]), cursor_of(found[limit - 1].key))
            last = await connection.rows(history_statements.LAST_SCANNED, place)
            return Page(tuple(found), cursor_of((last[0][0], last[0][1])) if last else None)

        return await self._read_at(read)

    async def find_history(self, stream: Stream, ids: Sequence[str]) -> list[HistoryEntry | None]:
        async def read(connection: PostgresConnection, now_us: int) -> list[HistoryEntry | None]:
            values = (self._namespace, stream.kind, stream.name, list(ids), now_us)
            rows = await connection.rows(history_statements.FIND, values)
            found = {entry.id: entry for entry in (_entry(*row) for row in rows)}
            return [found.get(id) for id in ids]

        return await self._read_at(read) if ids else []


def _entry(id: str, task: bytes, *rest: Any) -> HistoryEntry:
    return HistoryEntry(id, text_of(task), *rest)
