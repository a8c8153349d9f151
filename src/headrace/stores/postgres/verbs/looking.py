"""Reads messages and streams for people and programs: records, counts, dead letters, pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.core.messages.message import Stream
from headrace.core.records.answers import DeadAge, Wanted
from headrace.core.records.record import Counts, DeadLetter, JobStatus, Page, Progress, Record
from headrace.stores.postgres.rows.unique_keys import owners
from headrace.stores.postgres.session.connection import PostgresConnection, Row
from headrace.stores.postgres.statements import message_statements, record_statements, stream_statements
from headrace.stores.sql.lanes import DEAD, RANGES
from headrace.stores.sql.rows.record_rows import (
    DUE_LIMIT,
    ListingRow,
    RecordColumns,
    RecordListing,
    in_order,
    page_of_dead,
    record_of,
    streams_of,
)

# --- one message ------------------------------------------------------------------------------------------


async def look(
    connection: PostgresConnection, namespace: str, stream: Stream, id: str, now_us: int
) -> Record | None:
    values = (namespace, stream.kind, stream.name, id)
    found = await connection.rows(record_statements.READ_RECORD, values)
    return record_of(stream, _columns(found[0]), now_us) if found else None


def _columns(row: Row) -> RecordColumns:
    """The columns of `record_statements._RECORD`."""
    *columns, fraction, words, reported_us, log, expires_us, waiting_for = row
    text = (words or b"").decode(errors="replace")
    progress = None if fraction is None else Progress(fraction, text, reported_us or 0)
    return RecordColumns._make((*columns, progress, log, expires_us, waiting_for))


# --- listings ---------------------------------------------------------------------------------------------


async def list_streams(connection: PostgresConnection, namespace: str) -> list[Stream]:
    return streams_of(await connection.rows(stream_statements.LIST, (namespace,)))


async def count(connection: PostgresConnection, namespace: str, stream: Stream, now_us: int) -> Counts:
    """Counts the messages of the stream itself, not the events of a log."""
    key = (namespace, stream.kind, stream.name)
    rows = await connection.rows(stream_statements.READ_COUNTS, (*key, now_us, DUE_LIMIT))
    if not rows:
        return Counts()
    queued, running, scheduled, retrying, dead, parked, paused, due, oldest_us = rows[0]
    return Counts(queued + parked, running, scheduled, retrying, dead, due, oldest_us or 0, paused)


async def list_records(
    connection: PostgresConnection, namespace: str, listing: RecordListing, now_us: int
) -> Page[Record]:
    number = await _number(connection, namespace, listing.stream)
    if number is None:
        return Page(())
    walk = listing.walk(now_us)
    while part := listing.next_part(walk):
        rows, after = await _rows(connection, number, part)
        walk.took(filter(None, (record_of(listing.stream, row, now_us) for row in rows)), after)
    return walk.page()


async def list_dead(
    connection: PostgresConnection, namespace: str, listing: RecordListing
) -> Page[DeadLetter]:
    number = await _number(connection, namespace, listing.stream)
    if number is None:
        return Page(())
    return page_of_dead(listing.stream, *await _rows(connection, number, listing))


async def oldest_dead(
    connection: PostgresConnection, namespace: str, stream: Stream, limit: int, now_us: int
) -> list[DeadAge]:
    number = await _number(connection, namespace, stream)
    if number is None:
        return []
    rows = await connection.rows(record_statements.OLDEST_DEAD, (number, DEAD, limit))
    return [DeadAge(id, now_us - at_us) for id, at_us in rows]


async def _rows(
    connection: PostgresConnection, number: int, listing: RecordListing
) -> tuple[list[RecordColumns], str]:
    """The matching messages of one status, and the cursor of the next page; an empty cursor: there are no
    more."""
    values = (number, *listing.after, listing.since_us, listing.most)
    found = await connection.rows(_STATEMENTS[listing.status], values)
    lines, after = listing.chosen([ListingRow(*row) for row in found])
    if not lines:
        return [], after
    ids = [line.id for line in lines]
    rows = await connection.rows(record_statements.READ_RECORDS, (number, ids))
    return in_order(lines, map(_columns, rows)), after


#: The statements that list a status. None: all messages that are over.
_STATEMENTS: Final[dict[JobStatus | None, str]] = {
    **{status: record_statements.latest_of(first) for status, (first, _) in RANGES.items()},
    JobStatus.RUNNING: record_statements.LIST_RUNNING,
    JobStatus.QUEUED: record_statements.LIST_QUEUED,
    None: record_statements.LIST_OVER,
}


async def holders(
    connection: PostgresConnection, namespace: str, stream: Stream, wanted: Sequence[Wanted], now_us: int
) -> list[str | None]:
    number = await _number(connection, namespace, stream)
    if number is None:
        return [None] * len(wanted)
    ids = [each.id for each in wanted if each.id and stream.kind != "topic"]
    known = await _known_ids(connection, number, ids, now_us) if ids else set()
    by_key = await owners(connection, stream, number, [each.key for each in wanted if each.key], now_us)
    return [each.id if each.id in known else by_key.get(each.key) for each in wanted]


async def _known_ids(connection: PostgresConnection, stream: int, ids: list[str], now_us: int) -> set[str]:
    """The ids that have a message, or an end record whose time has not passed."""
    rows = await connection.rows(message_statements.FIND_KNOWN_IDS, (stream, ids, now_us))
    return {id for (id,) in rows}


async def _number(connection: PostgresConnection, namespace: str, stream: Stream) -> int | None:
    rows = await connection.rows(stream_statements.FIND, (namespace, stream.kind, stream.name))
    return rows[0][0] if rows else None
