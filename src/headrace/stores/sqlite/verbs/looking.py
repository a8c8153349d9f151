"""Reads messages and streams for people and programs: records, counts, dead letters, pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, get_args

import msgspec

from headrace.core.messages.job_log import decode_log
from headrace.core.messages.message import Stream, StreamKind
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.records.answers import Wanted
from headrace.core.records.listing import PARTS, ListingWalk, numbers_in
from headrace.core.records.record import Counts, DeadLetter, JobStatus, Page, Progress, Record, dead_letter_of
from headrace.core.values.decoding import DECODE_ERRORS
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.rows.lanes import DEAD, RANGES, RETRYING, RUNNING, SCHEDULED, STATUS, SUCCEEDED
from headrace.stores.sqlite.rows.readable_ids import readable_id, seq_of
from headrace.stores.sqlite.rows.unique_keys import owners
from headrace.stores.sqlite.statements import message_statements, record_statements, stream_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted

from .claim import read_state

#: A page reads at most this many rows, even when few of them match.
SCAN_LIMIT: Final = 1000

#: Due messages are counted up to this number, for each of scheduled and retrying.
DUE_LIMIT: Final = 10_000

#: The known kinds. Rows of another kind are skipped.
KINDS: Final = get_args(StreamKind)

#: Later than every time.
ETERNITY: Final = (1 << 63) - 1

_decode_failure = msgspec.msgpack.Decoder(Failure).decode


class RecordRow(NamedTuple):
    """The columns of `record_statements._RECORD`."""

    seq: int
    id: str
    place: int
    at_us: int
    since_us: int
    priority: int
    task: str
    reason: str | None
    note: str | None
    state: bytes | None
    failure: bytes | None
    result: bytes | None
    body: bytes | None
    worker: str | None
    unique_key: str | None
    unique_until: str | None
    progress: str | None
    log: bytes | None
    expires_us: int


# --- one message ------------------------------------------------------------------------------------------


def look(connection: Connection, namespace: str, stream: Stream, id: str, now_us: int) -> Record | None:
    place = (namespace, stream.kind, stream.name)
    found = connection.row(record_statements.READ_RECORD, (*place, id))
    if found is None and (seq := seq_of(id)):
        found = connection.row(record_statements.READ_RECORD_OF_SEQ, (*place, seq))
    return _record(stream, RecordRow(*found), now_us) if found else None


def which_are_over(
    connection: Connection, namespace: str, messages: list[tuple[Stream, str]]
) -> set[tuple[Stream, str]]:
    """The messages that neither wait nor run."""
    wanted = listed((stream.kind, stream.name, id) for stream, id in messages)
    going = set(unlisted(connection.value(record_statements.STILL_GOING, (namespace, wanted))))
    return {message for index, message in enumerate(messages) if index not in going}


def _record(stream: Stream, row: RecordRow, now_us: int) -> Record | None:
    """None for an end record whose time has passed."""
    place = row.place
    if place >= SUCCEEDED and row.at_us <= now_us:
        return None
    running = place == RUNNING
    state = read_state(row.state)
    expired = place < DEAD and not running and state.expired(row.expires_us, now_us)
    keyed = stream.kind == "queue" and place <= DEAD
    return Record(
        stream,
        readable_id(row.seq, row.id),
        JobStatus.EXPIRED if expired else STATUS.get(place, JobStatus.UNKNOWN),
        task=row.task,
        body=row.body,
        state=state,
        priority=row.priority,
        due_us=row.at_us if place in (SCHEDULED, RETRYING) and not expired else 0,
        claimed_us=row.since_us if running else 0,
        worker=(row.worker or "") if running else "",
        ended_us=row.since_us if place >= DEAD else row.expires_us if expired else 0,
        result=row.result,
        note=row.note or "",
        reason=_reason(row.reason),
        failure=_failure(row.failure),
        progress=Progress(*unlisted(row.progress)) if row.progress else None,
        log=decode_log(row.log),
        unique_key=(row.unique_key or "") if keyed else "",
        takes_key=keyed and row.unique_until == "finished",
    )


def _reason(reason: str | None) -> DeadReason | None:
    try:
        return DeadReason(reason) if reason else None
    except ValueError:
        return None  # written by a newer version


def _failure(data: bytes | None) -> Failure | None:
    try:
        return _decode_failure(data) if data else None
    except DECODE_ERRORS:
        return None


# --- listings ---------------------------------------------------------------------------------------------


def list_streams(connection: Connection, namespace: str) -> list[Stream]:
    rows = connection.rows(stream_statements.LIST_STREAMS, (namespace,))
    return [Stream(kind, name) for kind, name in rows if kind in KINDS]


def count(connection: Connection, namespace: str, stream: Stream, now_us: int) -> Counts:
    """Counts the messages of the stream itself, not the events of a log."""
    key = (namespace, stream.kind, stream.name)
    row = connection.row(stream_statements.READ_COUNTS, (*key, now_us, DUE_LIMIT))
    if row is None:
        return Counts()
    queued, running, scheduled, retrying, dead, paused, due, oldest_us = row
    return Counts(queued, running, scheduled, retrying, dead, due, oldest_us or 0, bool(paused))


class RecordListing(msgspec.Struct, frozen=True):
    """Which of a stream's messages the caller wants."""

    stream: Stream
    cursor: str | None
    limit: int
    status: JobStatus | None = None
    task: str | None = None
    reason: DeadReason | None = None

    def fits(self, line: ListingRow) -> bool:
        return self.task in (None, line.task) and self.reason in (None, line.reason)


class ListingRow(NamedTuple):
    """A row of a listing: enough to select by."""

    seq: int
    id: str
    place: int
    at_us: int
    task: str
    reason: str | None


def list_records(connection: Connection, namespace: str, listing: RecordListing, now_us: int) -> Page[Record]:
    number = _number(connection, namespace, listing.stream)
    if number is None:
        return Page(())
    walk = ListingWalk(PARTS, listing.cursor, listing.limit, status=listing.status, task=listing.task)
    walk.began = walk.began or now_us
    while part := walk.part:
        wanted = msgspec.structs.replace(
            listing, cursor=walk.after, limit=walk.room, status=part.status or listing.status
        )
        lines, after = _lines(connection, number, wanted, walk.began if part.late else -1)
        records = (_record(listing.stream, row, now_us) for row in _read(connection, lines))
        walk.took(filter(None, records), after)
    return walk.page()


def list_dead(connection: Connection, namespace: str, listing: RecordListing) -> Page[DeadLetter]:
    number = _number(connection, namespace, listing.stream)
    if number is None:
        return Page(())
    lines, after = _lines(connection, number, msgspec.structs.replace(listing, status=JobStatus.DEAD))
    letters = (_dead_letter(listing.stream, row) for row in _read(connection, lines))
    return Page(tuple(filter(None, letters)), after or None)


def _lines(
    connection: Connection, number: int, listing: RecordListing, since_us: int = -1
) -> tuple[list[ListingRow], str]:
    """The matching messages of one status, and the cursor of the next page; an empty cursor: there are no
    more. `since_us`: only messages that got the status later than this."""
    status = listing.status
    first = (-1, 0) if status is JobStatus.RUNNING else (ETERNITY, ETERNITY)
    after = numbers_in(listing.cursor, 2) if listing.cursor else first
    most = SCAN_LIMIT if listing.task or listing.reason else min(listing.limit + 1, SCAN_LIMIT)
    place = RANGES[status][0] if status else None
    sql = _STATEMENTS.get(status, record_statements.LIST_PLACE)
    array = connection.value(sql, (number, place, *after, since_us, most))
    lines = [ListingRow(*row) for row in unlisted(array)]
    chosen: list[ListingRow] = []
    for index, line in enumerate(lines, 1):
        if listing.fits(line):
            chosen.append(line)
        if len(chosen) == listing.limit and index < len(lines):
            return chosen, f"{line.at_us}:{line.seq}"
    return chosen, f"{lines[-1].at_us}:{lines[-1].seq}" if len(lines) == most else ""


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
    by_key = owners(connection, number, [each.key for each in wanted if each.key], now_us)
    return [each.id if each.id in known else by_key.get(each.key) for each in wanted]


def _known_ids(connection: Connection, stream: int, ids: list[str], now_us: int) -> set[str]:
    """The ids that have a message, or an end record whose time has not passed."""
    rows = unlisted(connection.value(message_statements.FIND_IDS, (stream, listed(ids))))
    return {id for _, id, place, at_us in rows if place < SUCCEEDED or at_us > now_us}


def _number(connection: Connection, namespace: str, stream: Stream) -> int | None:
    row = connection.row(stream_statements.FIND_STREAM, (namespace, stream.kind, stream.name))
    return row[0] if row else None


def _read(connection: Connection, lines: list[ListingRow]) -> list[RecordRow]:
    rows = (
        RecordRow(*row)
        for row in connection.rows(record_statements.READ_RECORDS, (listed(line.seq for line in lines),))
    )
    by_seq = {row.seq: row for row in rows}
    # A message that ended in between is left out.
    return [by_seq[line.seq] for line in lines if line.seq in by_seq]


def _dead_letter(stream: Stream, row: RecordRow) -> DeadLetter | None:
    record = _record(stream, row, 0)
    return dead_letter_of(record, reason=row.reason or "") if record else None
