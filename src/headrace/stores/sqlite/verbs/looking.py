"""Reads messages and streams for people and programs: records, counts, dead letters, pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.message import Stream
from headrace.core.records.answers import DeadAge, Wanted
from headrace.core.records.record import Counts, DeadLetter, JobStatus, Page, Progress, Record
from headrace.stores.sql.lanes import DEAD, RANGES, SUCCEEDED
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
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.rows.readable_ids import readable_id, seq_of
from headrace.stores.sqlite.rows.unique_keys import owners
from headrace.stores.sqlite.statements import message_statements, record_statements, stream_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted

# --- one message ------------------------------------------------------------------------------------------


def look(connection: Connection, namespace: str, stream: Stream, id: str, now_us: int) -> Record | None:
    place = (namespace, stream.kind, stream.name)
    found = connection.row(record_statements.READ_RECORD, (*place, id))
    if found is None and (seq := seq_of(id)):
        found = connection.row(record_statements.READ_RECORD_OF_SEQ, (*place, seq))
    return record_of(stream, _columns(found), now_us) if found else None


def which_are_over(
    connection: Connection, namespace: str, messages: list[tuple[Stream, str]]
) -> set[tuple[Stream, str]]:
    """The messages that neither wait nor run."""
    wanted = listed((stream.kind, stream.name, id) for stream, id in messages)
    going = set(unlisted(connection.value(record_statements.STILL_GOING, (namespace, wanted))))
    return {message for index, message in enumerate(messages) if index not in going}


def _columns(row: Sequence[Any]) -> RecordColumns:
    """The columns of `record_statements._RECORD`."""
    seq, id, *columns, progress, log, expires_us, waiting_for = row
    return RecordColumns._make(
        (seq, readable_id(seq, id), *columns, _progress(progress), log, expires_us, waiting_for)
    )


def _progress(stored: str | None) -> Progress | None:
    try:
        return Progress(*unlisted(stored)) if stored else None
    except DECODE_ERRORS:
        return None  # a damaged row: its number is too large for JSON


# --- listings ---------------------------------------------------------------------------------------------


def list_streams(connection: Connection, namespace: str) -> list[Stream]:
    return streams_of(connection.rows(stream_statements.LIST_STREAMS, (namespace,)))


def count(connection: Connection, namespace: str, stream: Stream, now_us: int) -> Counts:
    """Counts the messages of the stream itself, not the events of a log."""
    key = (namespace, stream.kind, stream.name)
    row = connection.row(stream_statements.READ_COUNTS, (*key, now_us, DUE_LIMIT))
    if row is None:
        return Counts()
    queued, running, scheduled, retrying, dead, paused, due, oldest_us = row
    return Counts(queued, running, scheduled, retrying, dead, due, oldest_us or 0, bool(paused))


def list_records(connection: Connection, namespace: str, listing: RecordListing, now_us: int) -> Page[Record]:
    number = _number(connection, namespace, listing.stream)
    if number is None:
        return Page(())
    walk = listing.walk(now_us)
    while part := listing.next_part(walk):
        rows, after = _rows(connection, number, part)
        walk.took(filter(None, (record_of(listing.stream, row, now_us) for row in rows)), after)
    return walk.page()


def list_dead(connection: Connection, namespace: str, listing: RecordListing) -> Page[DeadLetter]:
    number = _number(connection, namespace, listing.stream)
    if number is None:
        return Page(())
    return page_of_dead(listing.stream, *_rows(connection, number, listing))


def oldest_dead(
    connection: Connection, namespace: str, stream: Stream, limit: int, now_us: int
) -> list[DeadAge]:
    number = _number(connection, namespace, stream)
    rows = connection.rows(record_statements.OLDEST_DEAD, (number, DEAD, limit))
    return [DeadAge(id, now_us - at_us) for id, at_us in rows]


def _rows(connection: Connection, number: int, listing: RecordListing) -> tuple[list[RecordColumns], str]:
    """The matching messages of one status, and the cursor of the next page; an empty cursor: there are no
    more."""
    status = listing.status
    place = RANGES[status][0] if status else None
    sql = _STATEMENTS.get(status, record_statements.LIST_PLACE)
    bindings = (number, place, *listing.after, listing.since_us, listing.most)
    lines, after = listing.chosen([ListingRow(*row) for row in unlisted(connection.value(sql, bindings))])
    seqs = listed(line.seq for line in lines)
    rows = connection.rows(record_statements.READ_RECORDS, (seqs,))
    return in_order(lines, map(_columns, rows)), after


#: Statements for a status that has several places, the latest first. None: all messages that are over.
_STATEMENTS: Final[dict[JobStatus | None, str]] = {
    JobStatus.RUNNING: record_statements.LIST_RUNNING,
    JobStatus.QUEUED: record_statements.LIST_QUEUED,
    None: record_statements.LIST_OVER,
}


def holders(
    connection: Connection, namespace: str, stream: Stream, wanted: Sequence[Wanted], now_us: int
) -> list[str | None]:
    number = _number(connection, namespace, stream)
    if number is None:
        return [None] * len(wanted)
    ids = [each.id for each in wanted if each.id and stream.kind != "topic"]
    known = _known_ids(connection, number, ids, now_us) if ids else set()
    by_key = owners(connection, stream, number, [each.key for each in wanted if each.key], now_us)
    return [each.id if each.id in known else by_key.get(each.key) for each in wanted]


def _known_ids(connection: Connection, stream: int, ids: list[str], now_us: int) -> set[str]:
    """The ids that have a message, or an end record whose time has not passed."""
    rows = unlisted(connection.value(message_statements.FIND_IDS, (stream, listed(ids))))
    return {id for _, id, place, at_us in rows if place < SUCCEEDED or at_us > now_us}


def _number(connection: Connection, namespace: str, stream: Stream) -> int | None:
    row = connection.row(stream_statements.FIND_STREAM, (namespace, stream.kind, stream.name))
    return row[0] if row else None
