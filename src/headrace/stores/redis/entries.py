"""Turns entries of a lane into claims, and rows of the scripts into records.
lua/shared/messages/message.lua names the fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS, text_of
from headrace.core.messages.claim import Claim
from headrace.core.messages.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.messages.job_log import NO_LOG, JobLog, decode_log
from headrace.core.messages.message import FRESH, NORMAL, State, Stream, decode_state
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.records.record import JobStatus, Progress, Record
from headrace.core.values.bounds import LATEST_US

from .keys import HELD, Lane
from .stream_scripts import StreamScripts

T = TypeVar("T")

#: Number of fields and values: of an entry with only id, task and body, and of one that was drawn late and
#: also says when it was written.
PLAIN, DRAWN = 6, 8

#: Errors from an entry that another program wrote: it may lack fields that every message has.
UNREADABLE = (*DECODE_ERRORS, KeyError)

_failure = msgspec.msgpack.Decoder(Failure)
_constraints = msgspec.json.Decoder(Constraints)

#: Constraints as scripts read them.
stored_constraints = msgspec.json.Encoder().encode


class EntryToken(msgspec.Struct, frozen=True, gc=False):
    """The fencing token: an entry is handed out once, to one consumer, and never again under the same id.

    The other fields are what a settlement needs to know of the message. `origin` is the place of its first
    entry. With it, a late success is not taken for a later message of the same id.
    """

    lane: Lane
    entry: bytes
    consumer: str
    task: bytes
    origin: bytes | None = None
    unique: bytes = b""
    limited: bool = False  # it has constraints or an order key: other scripts settle it
    constraints: bytes = b""  # as they are stored

    @property
    def plain(self) -> bool:
        return self.origin is None and not self.unique

    @property
    def first_place(self) -> bytes:
        return self.origin or f"{self.lane}".encode() + self.entry


def claims_of(
    queue: StreamScripts, lane: Lane, entries: Sequence[Any], consumer: str, now_us: int
) -> list[Claim]:
    stream = queue.stream
    try:
        if lane == HELD:
            return [
                _limited_claim(stream, entry, fields, consumer, now_us)
                if isinstance(fields, bytes)
                else _claim(queue, lane, entry, fields, consumer, now_us)
                for entry, fields in entries
            ]
        return [
            Claim(stream, fields[1].decode(), fields[5], EntryToken(lane, entry, consumer, fields[3]), now_us)
            if len(fields) == PLAIN or (len(fields) == DRAWN and fields[6] == b"a")
            else _claim(queue, lane, entry, fields, consumer, now_us)
            for entry, fields in entries
        ]
    except UNREADABLE:
        return [_any_claim(queue, lane, entry, _fields(each), consumer, now_us) for entry, each in entries]


def _limited_claim(stream: Stream, entry: bytes, packed: bytes, consumer: str, now_us: int) -> Claim:
    """The claim of a message with nothing but constraints, in the form of `packed_for_line` in
    lua/shared/messages/message.lua."""
    id, task, constraints, body = packed.split(b"\0", 3)
    token = EntryToken(HELD, entry, consumer, task, None, b"", True, constraints)
    known = _known_constraints(constraints) if constraints else None
    return Claim(stream, id[1:].decode(), body, token, now_us, FRESH, NORMAL, 0, False, known)


def _fields(content: list[bytes] | bytes) -> list[bytes]:
    """The fields and values of a message in either form; none when it cannot be read."""
    if isinstance(content, list):
        return content
    names, words = (b"i", b"t", b"g", b"m"), content[1:].split(b"\0", 3)
    return [word for pair in zip(names, words, strict=True) for word in pair] if len(words) == 4 else []


def _any_claim(
    queue: StreamScripts, lane: Lane, entry: bytes, fields: list[bytes], consumer: str, now_us: int
) -> Claim:
    """The claim of an entry that perhaps cannot be read. Then the claim says so, and the worker makes the
    message a dead letter."""
    try:
        return _claim(queue, lane, entry, fields, consumer, now_us)
    except UNREADABLE as error:
        problem = f"the entry cannot be read ({error}): {message_of(fields)!r:.300}"
    message = message_of(fields)
    token = _token(lane, entry, consumer, message, message.get(b"t", b""))
    id = text_of(message.get(b"i", b""))
    if not id or id.encode() != message[b"i"]:
        id = f"unreadable-{lane}{entry.decode()}"
    return Claim(queue.stream, id, b"", token, now_us, unreadable=problem)


def _claim(
    queue: StreamScripts, lane: Lane, entry: bytes, fields: list[bytes], consumer: str, now_us: int
) -> Claim:
    message = message_of(fields)
    token = _token(lane, entry, consumer, message, message[b"t"])
    return Claim(
        queue.stream,
        message[b"i"].decode(),
        message[b"m"],
        token,
        now_us,
        state_of(message),
        _number(message.get(b"p", NORMAL)),
        _number(message.get(b"e", 0)),
        b"c" in message,
        constraints_of(message),
    )


def _number(text: bytes | int) -> int:
    """Raises an error for a number that headrace never stores, and that nothing could write again."""
    number = int(text)
    if abs(number) > LATEST_US:
        raise ValueError(f"{text!r} is out of range")
    return number


def _token(lane: Lane, entry: bytes, consumer: str, message: dict[bytes, bytes], task: bytes) -> EntryToken:
    origin, limited = message.get(b"o"), lane == HELD or b"g" in message
    if limited and origin is None and lane != HELD:
        origin = f"{lane}".encode() + entry
    unique, constraints = message.get(b"u", b""), message.get(b"g", b"")
    return EntryToken(lane, entry, consumer, task, origin, unique, limited, constraints)


def constraints_of(message: dict[bytes, bytes]) -> Constraints | None:
    """None of a message that has no constraints, or only an order key."""
    packed = message.get(b"g")
    return _known_constraints(packed) if packed else None


@lru_cache(maxsize=1000)
def _known_constraints(packed: bytes) -> Constraints:
    return _constraints.decode(packed)


@lru_cache(maxsize=1000)
def budgets_of(packed: bytes) -> list[bytes]:
    """The names of the limits of constraints, with their keys (lua/shared/limits/limits.lua)."""
    limits = readable(_constraints.decode, packed, NO_CONSTRAINTS).limits
    return list(dict.fromkeys(f"{each.limit}/{each.key}".encode() for each in limits))


def message_of(fields: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(fields[::2], fields[1::2], strict=False))


def state_of(message: dict[bytes, bytes]) -> State:
    state = message.get(b"s")
    return decode_state(state) if state else FRESH


def record_of(stream: Stream, row: Sequence[Any]) -> Record:
    """The record in a row that lua/shared/messages/describing.lua made."""
    id, status, time, worker, fields, *report = row
    message, job_status, at_us = message_of(fields), JobStatus(status.decode()), read_score(time)
    progress, log = read_report(report[0] if report else None)
    waits = job_status is JobStatus.QUEUED and len(report) > 1
    unique = message.get(b"u", b"") if stream.kind == "queue" else b""
    return Record(
        stream,
        text_of(id),
        job_status,
        task=text_of(message.get(b"t", b"")),
        body=message.get(b"m"),
        state=readable(state_of, message, FRESH),
        priority=readable(_number, message.get(b"p", NORMAL), NORMAL),
        due_us=at_us if job_status in (JobStatus.SCHEDULED, JobStatus.RETRYING) else 0,
        claimed_us=at_us if job_status is JobStatus.RUNNING else 0,
        worker=text_of(worker),
        ended_us=at_us if job_status.over else 0,
        result=message.get(b"v"),
        note=text_of(message.get(b"n", b"")),
        reason=readable(_reason_of, message.get(b"r"), None),
        failure=readable(_failure.decode, message.get(b"f", b""), None),
        progress=progress,
        log=log,
        unique_key=text_of(unique[1:]),
        waiting_for=text_of(report[1]) if waits else "",
        takes_key=unique.startswith(b"f"),
    )


def readable(read: Callable[[Any], T], data: Any, otherwise: T) -> T:
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
    return int(text) if text.isdigit() else readable(lambda text: int(float(text)), text, 0)


def read_report(report: bytes | None) -> tuple[Progress | None, JobLog]:
    """The progress and log of a run, in the form of `report_of` in lua/shared/messages/place.lua."""
    if not report:
        return None, NO_LOG
    try:
        at_us, fraction, length, rest = report.split(b" ", 3)
        end = int(length)
        progress = None if fraction == b"-" else Progress(float(fraction), rest[:end].decode(), int(at_us))
    except ValueError:
        return None, NO_LOG  # of another version; the message must still be recovered
    return progress, decode_log(rest[end:])
