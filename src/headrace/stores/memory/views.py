"""Builds records, counts and pages from the state of a stream."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING

from headrace.core.messages.job_log import NO_LOG
from headrace.core.records.answers import DeadFilter
from headrace.core.records.listing import PARTS, ListingPart, ListingWalk, numbers_in
from headrace.core.records.record import (
    ORDER_KEY,
    Counts,
    DeadLetter,
    JobStatus,
    Page,
    Record,
    dead_letter_of,
)
from headrace.stores.memory.streams.end_records import EndRecord
from headrace.stores.memory.streams.entry import Entry

if TYPE_CHECKING:
    from headrace.stores.memory.streams.message_states import MessageStates

#: The position of a row in a listing.
ListingRank = tuple[int, ...]

#: After every place.
LAST: ListingRank = (1 << 63, 0)

#: A page reads at most this many rows, even when few of them match.
SCAN_LIMIT = 1000


def record_of(stream_state: MessageStates, id: str, now_us: int) -> Record | None:
    row = stream_state.find(id, now_us)
    return _record(stream_state, row, now_us) if row else None


def end_of(stream_state: MessageStates, id: str, now_us: int) -> Record | None:
    """The record of a message that is over, even when nothing of it is kept; None: it is not over."""
    record = record_of(stream_state, id, now_us)
    if record is None:
        return Record(stream_state.stream, id, JobStatus.UNKNOWN)
    return record if record.status.over else None


def counts_of(stream_state: MessageStates, now_us: int) -> Counts:
    return Counts(
        queued=stream_state.queued(),
        running=len(stream_state.running),
        scheduled=stream_state.due_messages.count(JobStatus.SCHEDULED),
        retrying=stream_state.due_messages.count(JobStatus.RETRYING),
        dead=len(stream_state.dead),
        due=stream_state.due_messages.count_due(now_us),
        oldest_us=stream_state.oldest_us(),
        paused=stream_state.paused,
    )


def page_of_records(
    stream_state: MessageStates,
    status: JobStatus | None,
    task: str | None,
    cursor: str | None,
    limit: int,
    now_us: int,
) -> Page[Record]:
    walk = ListingWalk(PARTS, cursor, limit, status=status, task=task)
    walk.began = walk.began or now_us
    while part := walk.part:
        before = numbers_in(walk.after, 2) if walk.after else LAST
        rows = [
            (at, row)
            for row in _rows(stream_state, part, walk.began, now_us)
            if task in (None, _task(row)) and (at := _latest(row)) < before
        ]
        rows.sort(key=itemgetter(0), reverse=True)
        listed = rows[: walk.room]
        after = "{}:{}".format(*listed[-1][0]) if len(listed) < len(rows) else ""
        walk.took((_record(stream_state, row, now_us) for _, row in listed), after)
    return walk.page()


def _rows(
    stream_state: MessageStates, part: ListingPart, began_us: int, now_us: int
) -> Iterable[Entry | EndRecord]:
    if part.status is None:
        return (
            end_record
            for end_record in stream_state.end_records.by_id.values()
            if end_record.until_us > now_us
        )
    if part.status is JobStatus.RUNNING:
        entries: Iterable[Entry] = stream_state.running.values()
    elif part.status is JobStatus.DEAD:
        entries = stream_state.dead.values()
    else:
        entries = (entry for entry in stream_state.entries.values() if entry.status is part.status)
    return (entry for entry in entries if not part.late or entry.since_us > began_us)


def _latest(row: Entry | EndRecord) -> ListingRank:
    """The position among messages of the same state: by when it is due, died, ended, or got the state."""
    if isinstance(row, EndRecord):
        return row.ended_us, row.number
    return row.due_us or row.since_us, row.died or row.number


def _task(row: Entry | EndRecord) -> str:
    return row.task if isinstance(row, EndRecord) else row.message.task


def page_of_dead(
    stream_state: MessageStates, only: DeadFilter, cursor: str | None, limit: int
) -> Page[DeadLetter]:
    # This copies all references, which is fast, and reads only one window of entries.
    entries = list(reversed(stream_state.dead.values()))
    start = bisect_right(entries, -numbers_in(cursor, 1)[0], key=lambda entry: -entry.died) if cursor else 0
    end = start
    letters: list[DeadLetter] = []
    while end < min(len(entries), start + SCAN_LIMIT) and len(letters) < limit:
        entry = entries[end]
        if only.fits(entry.message.task, entry.reason):
            letters.append(dead_letter_of(_record_of_entry(stream_state, entry, 0)))
        end += 1
    more = start < end < len(entries)
    return Page(tuple(letters), str(entries[end - 1].died) if more else None)


def _record(stream_state: MessageStates, row: Entry | EndRecord, now_us: int) -> Record:
    return (
        _record_of_end(stream_state, row)
        if isinstance(row, EndRecord)
        else _record_of_entry(stream_state, row, now_us)
    )


def _record_of_end(stream_state: MessageStates, end_record: EndRecord) -> Record:
    return Record(
        stream_state.stream,
        end_record.id,
        end_record.status,
        task=end_record.task,
        state=end_record.state,
        ended_us=end_record.ended_us,
        result=end_record.result,
        note=end_record.note,
    )


def _record_of_entry(stream_state: MessageStates, entry: Entry, now_us: int) -> Record:
    message = entry.message
    expired = entry.expired(now_us)
    running = entry.status is JobStatus.RUNNING
    unique = message.unique if stream_state.stream.kind == "queue" else None
    return Record(
        stream_state.stream,
        message.id,
        JobStatus.EXPIRED if expired else entry.status,
        task=message.task,
        body=message.body,
        state=entry.state,
        priority=message.priority,
        due_us=0 if expired else entry.due_us,
        claimed_us=entry.since_us if running else 0,
        worker=entry.worker if running else "",
        ended_us=entry.since_us if entry.status is JobStatus.DEAD else entry.expires_us if expired else 0,
        reason=entry.reason,
        failure=entry.failure,
        progress=entry.progress if running else None,
        log=entry.log if running else NO_LOG,
        unique_key=unique.key if unique else "",
        waiting_for="" if expired else _waiting_for(stream_state, entry),
        takes_key=unique is not None and unique.until == "finished",
    )


def _waiting_for(stream_state: MessageStates, entry: Entry) -> str:
    if entry.status is not JobStatus.QUEUED:
        return ""
    if stream_state.parking.is_parked(entry):
        return ORDER_KEY
    return stream_state.lanes.lines.blocked_by(entry) if entry.message.constraints is not None else ""
