"""Builds records, dead letters and pages from the rows of messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, get_args

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.job_log import decode_log
from headrace.core.messages.message import FRESH, Stream, StreamKind, readable_state
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.records.answers import DeadFilter
from headrace.core.records.listing import PARTS, ListingWalk, numbers_in
from headrace.core.records.record import (
    ORDER_KEY,
    DeadLetter,
    JobStatus,
    Page,
    Progress,
    Record,
    dead_letter_of,
)
from headrace.stores.sql.lanes import DEAD, PARKED, RETRYING, RUNNING, SCHEDULED, STATUS, SUCCEEDED

#: A page reads at most this many rows, even when few of them match.
SCAN_LIMIT: Final = 1000

#: Due messages are counted up to this number, for each of scheduled and retrying.
DUE_LIMIT: Final = 10_000

#: The known kinds. Rows of another kind are skipped.
KINDS: Final = get_args(StreamKind)

#: Later than every time.
ETERNITY: Final = (1 << 63) - 1

_decode_failure = msgspec.msgpack.Decoder(Failure).decode


def streams_of(rows: Iterable[Sequence[Any]]) -> list[Stream]:
    return [Stream(kind, name) for kind, name in rows if kind in KINDS]


# --- one message ------------------------------------------------------------------------------------------


class RecordColumns(NamedTuple):
    """The columns of a message that a record is made of."""

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
    progress: Progress | None
    log: bytes | None
    expires_us: int
    waiting_for: str | None = None


def record_of(stream: Stream, row: RecordColumns, now_us: int) -> Record | None:
    """None for an end record whose time has passed."""
    place = row.place
    if place >= SUCCEEDED and row.at_us <= now_us:
        return None
    running = place == RUNNING
    state = readable_state(row.state) or FRESH
    expired = place < DEAD and not running and state.expired(row.expires_us, now_us)
    keyed = stream.kind == "queue" and place <= DEAD
    return Record(
        stream,
        row.id,
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
        progress=row.progress,
        log=decode_log(row.log),
        unique_key=(row.unique_key or "") if keyed else "",
        takes_key=keyed and row.unique_until == "finished",
        waiting_for="" if expired else ORDER_KEY if place == PARKED else row.waiting_for or "",
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


class ListingRow(NamedTuple):
    """A row of a listing: enough to select by."""

    seq: int
    id: str
    place: int
    at_us: int
    task: str
    reason: str | None


class RecordListing(msgspec.Struct, frozen=True):
    """Which of a stream's messages the caller wants. `since_us`: only messages that got the status later than
    this."""

    stream: Stream
    cursor: str | None
    limit: int
    status: JobStatus | None = None
    only: DeadFilter = DeadFilter()
    since_us: int = -1

    def walk(self, now_us: int) -> ListingWalk:
        walk = ListingWalk(PARTS, self.cursor, self.limit, status=self.status, task=self.only.task)
        walk.began = walk.began or now_us
        return walk

    def next_part(self, walk: ListingWalk) -> RecordListing | None:
        """What to read next for this page; None: the page is complete."""
        part = walk.part
        if part is None:
            return None
        return msgspec.structs.replace(
            self,
            cursor=walk.after,
            limit=walk.room,
            status=part.status or self.status,
            since_us=walk.began if part.late else -1,
        )

    @property
    def after(self) -> tuple[int, ...]:
        """The time and the number after which to read."""
        first = (-1, 0) if self.status is JobStatus.RUNNING else (ETERNITY, ETERNITY)
        return numbers_in(self.cursor, 2) if self.cursor else first

    @property
    def most(self) -> int:
        """How many rows to read."""
        return SCAN_LIMIT if self.only != DeadFilter() else min(self.limit + 1, SCAN_LIMIT)

    def chosen(self, lines: Sequence[ListingRow]) -> tuple[list[ListingRow], str]:
        """The matching ones of the rows that were read, and the cursor of the next page; an empty cursor:
        there are no more."""
        chosen: list[ListingRow] = []
        for index, line in enumerate(lines, 1):
            if self.only.fits(line.task, line.reason):
                chosen.append(line)
            if len(chosen) == self.limit and index < len(lines):
                return chosen, f"{line.at_us}:{line.seq}"
        return chosen, f"{lines[-1].at_us}:{lines[-1].seq}" if len(lines) == self.most else ""


def in_order(lines: Iterable[ListingRow], rows: Iterable[RecordColumns]) -> list[RecordColumns]:
    """The rows of these lines. A message that ended in between is left out."""
    by_seq = {row.seq: row for row in rows}
    return [by_seq[line.seq] for line in lines if line.seq in by_seq]


def page_of_dead(stream: Stream, rows: Iterable[RecordColumns], after: str) -> Page[DeadLetter]:
    found = ((record_of(stream, row, 0), row.reason) for row in rows)
    letters = [dead_letter_of(record, reason=reason or "") for record, reason in found if record]
    return Page(tuple(letters), after or None)
