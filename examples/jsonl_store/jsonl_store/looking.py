"""What the state looks like from outside: records, counts and pages."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.store import (
    LISTING_PARTS,
    NO_LOG,
    ConfigurationError,
    Counts,
    DeadFilter,
    DeadLetter,
    GroupRecord,
    JobStatus,
    ListingPart,
    ListingWalk,
    Page,
    Record,
    TopicRecord,
    dead_letter_of,
    numbers_in,
)

from .entry import EndRecord, Entry
from .group import GroupState
from .stream import StreamState
from .topic import TopicState

#: Before every place in a listing, which goes from the latest to the first.
LATEST = (1 << 80, 0)


def record_of(stream: StreamState, id: str, now_us: int) -> Record | None:
    row = stream.find(id, now_us)
    return _record(stream, row, now_us) if row else None


def end_of(stream: StreamState, id: str, now_us: int) -> Record | None:
    """The record of a message that is over, of which nothing may be kept; None: it is not over."""
    record = record_of(stream, id, now_us) or Record(stream.stream, id, JobStatus.UNKNOWN)
    return record if record.status.over else None


def counts_of(stream: StreamState, now_us: int) -> Counts:
    return Counts(
        queued=stream.queued(),
        running=len(stream.running),
        scheduled=stream.waiting(JobStatus.SCHEDULED),
        retrying=stream.waiting(JobStatus.RETRYING),
        dead=len(stream.dead),
        due=sum(due_us <= now_us for due_us, _ in stream.due),
        oldest_us=stream.oldest_us(),
        paused=stream.paused,
    )


# --- listings -----------------------------------------------------------------------------------------------


def page_of_records(
    stream: StreamState,
    status: JobStatus | None,
    task: str | None,
    cursor: str | None,
    limit: int,
    now_us: int,
) -> Page[Record]:
    walk = ListingWalk(LISTING_PARTS, cursor, limit, status=status, task=task)
    walk.began = walk.began or now_us
    while part := walk.part:
        before = numbers_in(walk.after, 2) if walk.after else LATEST
        rows = sorted(_rows(stream, part, walk.began, now_us), key=_place, reverse=True)
        left = [row for row in rows if _place(row) < before and task in (None, _task(row))]
        listed = left[: walk.room]
        after = "{}:{}".format(*_place(listed[-1])) if len(listed) < len(left) else ""
        walk.took([_record(stream, row, now_us) for row in listed], after)
    return walk.page()


def _rows(stream: StreamState, part: ListingPart, began_us: int, now_us: int) -> Iterable[Entry | EndRecord]:
    if part.status is None:
        return [record for record in stream.end_records.values() if record.until_us > now_us]
    entries = [entry for entry in stream.entries.values() if entry.status is part.status]
    return [entry for entry in entries if not part.late or entry.since_us > began_us]


def _place(row: Entry | EndRecord) -> tuple[int, int]:
    """Where it is among those of its state: by when it is due, died, ended, or came to it."""
    if isinstance(row, EndRecord):
        return row.ended_us, row.number
    return row.due_us or row.since_us, row.died or row.number


def _task(row: Entry | EndRecord) -> str:
    return row.task if isinstance(row, EndRecord) else row.message.task


def page_of_dead(stream: StreamState, only: DeadFilter, cursor: str | None, limit: int) -> Page[DeadLetter]:
    before = _cursor(cursor) if cursor else LATEST[0]
    found = [
        entry
        for entry in reversed(stream.dead.values())
        if entry.died < before and only.fits(entry.message.task, entry.reason)
    ]
    more = len(found) > limit > 0
    letters = tuple(dead_letter_of(_of_entry(stream, entry, 0)) for entry in found[:limit])
    return Page(letters, str(found[limit - 1].died) if more else None)


def _cursor(cursor: str) -> int:
    try:
        return int(cursor)
    except ValueError:
        raise ConfigurationError(
            f"{cursor!r} is no cursor of this listing: pass one that a page gave"
        ) from None


# --- one message --------------------------------------------------------------------------------------------


def _record(stream: StreamState, row: Entry | EndRecord, now_us: int) -> Record:
    return _of_end_record(stream, row) if isinstance(row, EndRecord) else _of_entry(stream, row, now_us)


def _of_end_record(stream: StreamState, record: EndRecord) -> Record:
    return Record(
        stream.stream,
        record.id,
        record.status,
        task=record.task,
        state=record.state,
        ended_us=record.ended_us,
        result=record.result,
        note=record.note,
    )


def _of_entry(stream: StreamState, entry: Entry, now_us: int) -> Record:
    message = entry.message
    expired = entry.expired(now_us)
    running = entry.status is JobStatus.RUNNING
    unique = message.unique if stream.stream.kind == "queue" else None
    return Record(
        stream.stream,
        message.id,
        JobStatus.EXPIRED if expired else entry.status,
        task=message.task,
        body=message.body,
        state=entry.state,
        priority=message.priority,
        due_us=0 if expired else entry.due_us,
        claimed_us=entry.since_us if running else 0,
        worker=entry.worker if running else "",
        ended_us=_ended_us(entry, expired=expired),
        reason=entry.reason,
        failure=entry.failure,
        progress=entry.progress if running else None,
        log=entry.log if running else NO_LOG,
        unique_key=unique.key if unique else "",
        takes_key=unique is not None and unique.until == "finished",
    )


def _ended_us(entry: Entry, *, expired: bool) -> int:
    if entry.status is JobStatus.DEAD:
        return entry.since_us
    return entry.expires_us if expired else 0


# --- topics -------------------------------------------------------------------------------------------------


def record_of_topic(topic: TopicState, now_us: int) -> TopicRecord:
    log = topic.log
    return TopicRecord(
        topic.stream,
        topic.rules,
        log.first,
        log.last,
        log.first_us,
        log.last_us,
        scheduled=topic.waiting(JobStatus.SCHEDULED),
        groups=tuple(_record_of_group(topic.groups[name], now_us) for name in sorted(topic.groups)),
    )


def _record_of_group(group: GroupState, now_us: int) -> GroupRecord:
    return GroupRecord(
        group.stream,
        group.position,
        group.lag,
        msgspec.structs.replace(counts_of(group, now_us), queued=group.drawn),
        oldest_us=group.oldest_written_us(),
        seen_us=group.seen_us,
        ordered=group.ordering.ordered,
    )
