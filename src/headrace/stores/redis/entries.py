"""Turns entries of a lane into claims, and rows of the scripts into records. lua/shared/message.lua names the
fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.core.messages.claim import Claim
from headrace.core.messages.job_log import NO_LOG, JobLog, decode_log
from headrace.core.messages.message import FRESH, NORMAL, State, Stream, decode_state
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.records.record import JobStatus, Progress, Record
from headrace.core.values.decoding import DECODE_ERRORS, text_of

from .stream_scripts import StreamScripts

T = TypeVar("T")

#: Number of fields and values: of an entry with only id, task and body, and of one that was drawn late and
#: also says when it was written.
PLAIN, DRAWN = 6, 8

#: Errors from an entry that another program wrote: it may lack fields that every message has.
UNREADABLE = (*DECODE_ERRORS, KeyError)

_failure = msgspec.msgpack.Decoder(Failure)


class EntryToken(msgspec.Struct, frozen=True, gc=False):
    """The fencing token: an entry is handed out once, to one consumer, and never again under the same id.

    The other fields are what a settlement needs to know of the message. `origin` is the place of its first
    entry. With it, a late success is not taken for a later message of the same id.
    """

    lane: int
    entry: bytes
    consumer: str
    task: bytes
    origin: bytes | None = None
    unique: bytes = b""

    @property
    def plain(self) -> bool:
        return self.origin is None and not self.unique

    @property
    def first_place(self) -> bytes:
        return self.origin or b"%d%b" % (self.lane, self.entry)


def claims_of(
    queue: StreamScripts, lane: int, entries: Sequence[Any], consumer: str, now_us: int
) -> list[Claim]:
    stream = queue.stream
    try:
        return [
            Claim(stream, fields[1].decode(), fields[5], EntryToken(lane, entry, consumer, fields[3]), now_us)
            if len(fields) == PLAIN or (len(fields) == DRAWN and fields[6] == b"a")
            else _claim(queue, lane, entry, fields, consumer, now_us)
            for entry, fields in entries
        ]
    except UNREADABLE:
        return [_any_claim(queue, lane, entry, fields, consumer, now_us) for entry, fields in entries]


def _any_claim(
    queue: StreamScripts, lane: int, entry: bytes, fields: list[bytes], consumer: str, now_us: int
) -> Claim:
    """The claim of an entry that perhaps cannot be read. Then the claim says so, and the worker makes the
    message a dead letter."""
    try:
        return _claim(queue, lane, entry, fields, consumer, now_us)
    except UNREADABLE as error:
        problem = f"the entry cannot be read ({error}): {message_of(fields)!r:.300}"
    message = message_of(fields)
    token = EntryToken(
        lane, entry, consumer, message.get(b"t", b""), message.get(b"o"), message.get(b"u", b"")
    )
    id = text_of(message.get(b"i", b""))
    if not id or id.encode() != message[b"i"]:
        id = f"unreadable-{lane}{entry.decode()}"
    return Claim(queue.stream, id, b"", token, now_us, unreadable=problem)


def _claim(
    queue: StreamScripts, lane: int, entry: bytes, fields: list[bytes], consumer: str, now_us: int
) -> Claim:
    message = message_of(fields)
    token = EntryToken(lane, entry, consumer, message[b"t"], message.get(b"o"), message.get(b"u", b""))
    return Claim(
        queue.stream,
        message[b"i"].decode(),
        message[b"m"],
        token,
        now_us,
        state_of(message),
        int(message.get(b"p", NORMAL)),
        int(message.get(b"e", 0)),
        b"c" in message,
    )


def message_of(fields: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(fields[::2], fields[1::2], strict=False))


def state_of(message: dict[bytes, bytes]) -> State:
    state = message.get(b"s")
    return decode_state(state) if state else FRESH


def record_of(stream: Stream, row: Sequence[Any]) -> Record:
    """The record in a row that lua/shared/describing.lua made."""
    id, status, time, worker, fields, *report = row
    message, job_status, at_us = message_of(fields), JobStatus(status.decode()), read_score(time)
    progress, log = read_report(report[0] if report else None)
    unique = message.get(b"u", b"") if stream.kind == "queue" else b""
    return Record(
        stream,
        text_of(id),
        job_status,
        task=text_of(message.get(b"t", b"")),
        body=message.get(b"m"),
        state=_readable(state_of, message, FRESH),
        priority=_readable(int, message.get(b"p", NORMAL), NORMAL),
        due_us=at_us if job_status in (JobStatus.SCHEDULED, JobStatus.RETRYING) else 0,
        claimed_us=at_us if job_status is JobStatus.RUNNING else 0,
        worker=text_of(worker),
        ended_us=at_us if job_status.over else 0,
        result=message.get(b"v"),
        note=text_of(message.get(b"n", b"")),
        reason=_readable(_reason_of, message.get(b"r"), None),
        failure=_readable(_failure.decode, message.get(b"f", b""), None),
        progress=progress,
        log=log,
        unique_key=text_of(unique[1:]),
        takes_key=unique.startswith(b"f"),
    )


def _readable(read: Callable[[Any], T], data: Any, otherwise: T) -> T:
    """The decoded value, or `otherwise` when it cannot be read: a listing shows the fields that it can."""
    try:
        return read(data)
    except DECODE_ERRORS:
        return otherwise


def _reason_of(data: bytes | None) -> DeadReason | None:
    return DeadReason(data.decode()) if data else None


def read_score(text: bytes) -> int:
    """The time in a score. A server writes more than 17 digits, which headrace never stores, with an
    exponent."""
    return int(text) if text.isdigit() else _readable(lambda text: int(float(text)), text, 0)


def read_report(report: bytes | None) -> tuple[Progress | None, JobLog]:
    """The progress and log of a run, in the form of `report_of` in lua/shared/place.lua."""
    if not report:
        return None, NO_LOG
    try:
        at_us, fraction, length, rest = report.split(b" ", 3)
        end = int(length)
        progress = None if fraction == b"-" else Progress(float(fraction), rest[:end].decode(), int(at_us))
    except ValueError:
        return None, NO_LOG  # of another version; the message must still be recovered
    return progress, decode_log(rest[end:])
