"""What the history keeps of a job that has ended: its arguments, its times, its runs and its outcome."""

from __future__ import annotations

from typing import Final

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.message import FRESH, NORMAL, State, Stream
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.records.record import JobStatus, Record
from headrace.core.values.bounds import MomentUs

from .entry import HistoryEntry


class EndedJob(msgspec.Struct, frozen=True, array_like=True):
    """The details of a job that has ended. `body` is its message, with masked secrets; None: it is not kept,
    and `note` says why."""

    body: bytes | None = None
    started_us: MomentUs = 0
    worker: str = ""
    state: State = FRESH
    priority: int = NORMAL
    reason: str = ""
    failure: Failure | None = None
    note: str = ""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(EndedJob)

encode_ended = _encoder.encode


def decode_ended(content: bytes) -> EndedJob:
    """The details. Content that cannot be read gives an empty one, with a note."""
    try:
        return _decoder.decode(content)
    except DECODE_ERRORS as error:
        return EndedJob(note=f"its entry in the history cannot be read: {error}")


def record_of_entry(stream: Stream, entry: HistoryEntry) -> Record | None:
    """The record of a job that only the history knows. None: only a newer version knows its status."""
    if entry.status not in _STATUSES:
        return None
    return _detailed(
        Record(stream, entry.id, JobStatus(entry.status), task=entry.task, ended_us=entry.ended_us), entry
    )


def with_history(record: Record, entry: HistoryEntry | None) -> Record:
    """The record of a job that is over, with the details that the history has of the same end."""
    if entry is None or entry.status != record.status:
        return record
    return _detailed(record, entry)


def _detailed(record: Record, entry: HistoryEntry) -> Record:
    ended = decode_ended(entry.content)
    reason = DeadReason(ended.reason) if ended.reason in _REASONS else None
    return msgspec.structs.replace(
        record,
        task=record.task or entry.task,
        body=record.body or ended.body,
        state=ended.state if record.state == FRESH else record.state,
        priority=ended.priority,
        started_us=ended.started_us,
        # Start and end come from one reading of the clock. The end of the store is the time of its write,
        # which may be earlier than this start.
        ended_us=entry.ended_us if ended.started_us else record.ended_us or entry.ended_us,
        worker=record.worker or ended.worker,
        reason=record.reason or reason,
        failure=record.failure or ended.failure,
        note=record.note or ended.note,
    )


_STATUSES: Final = frozenset(map(str, JobStatus))
_REASONS: Final = frozenset(map(str, DeadReason))
