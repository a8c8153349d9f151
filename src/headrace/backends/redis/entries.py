"""Entries of a lane as claims, rows of the scripts as records. Fields are named in lua/shared/message.lua."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.core.claim import Claim
from headrace.core.clock import datetime_of
from headrace.core.job_log import NO_LOG, JobLog, decode_log
from headrace.core.message import FRESH, NORMAL, State, Stream, decode_state
from headrace.core.outcome import DeadReason, Failure
from headrace.core.record import DeadLetter, JobStatus, Progress, Record

from .queue import Queue

#: An entry that holds nothing but id, task and body has this many fields and values, and one that was drawn
#: late and says when it was written has these.
PLAIN, DRAWN = 6, 8

_failure = msgspec.msgpack.Decoder(Failure)


class Token(msgspec.Struct, frozen=True, gc=False):
    """The fence: an entry is handed out once, to one consumer, and never again under the same id.

    The rest is what a settlement needs to know of the message: by `origin`, the place of its first entry, a
    late success tells its message from a later one of the same id.
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


def claims_of(queue: Queue, lane: int, entries: Sequence[Any], consumer: str, now_us: int) -> list[Claim]:
    source = queue.source
    return [
        Claim(source, fields[1].decode(), fields[5], Token(lane, entry, consumer, fields[3]), now_us)
        if len(fields) == PLAIN or (len(fields) == DRAWN and fields[6] == b"a")
        else _claim(queue, lane, entry, fields, consumer, now_us)
        for entry, fields in entries
    ]


def _claim(queue: Queue, lane: int, entry: bytes, fields: list[bytes], consumer: str, now_us: int) -> Claim:
    message = message_of(fields)
    token = Token(lane, entry, consumer, message[b"t"], message.get(b"o"), message.get(b"u", b""))
    return Claim(
        queue.source,
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
    return dict(zip(fields[::2], fields[1::2], strict=True))


def state_of(message: dict[bytes, bytes]) -> State:
    state = message.get(b"s")
    return decode_state(state) if state else FRESH


def record_of(stream: Stream, row: Sequence[Any]) -> Record:
    """A row as lua/shared/describing.lua makes it."""
    id, status, time, worker, fields, *said = row
    message, job_status, at_us = message_of(fields), JobStatus(status.decode()), read_score(time)
    reason, failure = message.get(b"r"), message.get(b"f")
    progress, log = read_said(said[0] if said else None)
    unique = message.get(b"u", b"") if stream.kind == "queue" else b""
    return Record(
        stream,
        id.decode(),
        job_status,
        task=message.get(b"t", b"").decode(),
        body=message.get(b"m"),
        state=state_of(message),
        priority=int(message.get(b"p", NORMAL)),
        due_us=at_us if job_status in (JobStatus.SCHEDULED, JobStatus.RETRYING) else 0,
        claimed_us=at_us if job_status is JobStatus.RUNNING else 0,
        worker=worker.decode(),
        ended_us=at_us if job_status.over else 0,
        result=message.get(b"v"),
        note=message.get(b"n", b"").decode(),
        reason=DeadReason(reason.decode()) if reason else None,
        failure=_failure.decode(failure) if failure else None,
        progress=progress,
        log=log,
        unique_key=unique[1:].decode(),
        takes_key=unique.startswith(b"f"),
    )


def read_score(text: bytes) -> int:
    """A time. Beyond 17 digits, which only a stranger stores, a server writes it with an exponent."""
    return int(text) if text.isdigit() else int(float(text))


def read_said(said: bytes | None) -> tuple[Progress | None, JobLog]:
    """What a run said of itself, as `said_of` in lua/shared/place.lua has it."""
    if not said:
        return None, NO_LOG
    try:
        at_us, fraction, length, rest = said.split(b" ", 3)
        end = int(length)
        progress = None if fraction == b"-" else Progress(float(fraction), rest[:end].decode(), int(at_us))
    except ValueError:
        return None, NO_LOG  # of another version: it must not keep its message from being recovered
    return progress, decode_log(rest[end:])


def dead_letter_of(record: Record) -> DeadLetter:
    failure, stream = record.failure or Failure("", ""), record.stream
    return DeadLetter(
        id=record.id,
        task=record.task,
        reason=record.reason or "",
        error=failure.error,
        traceback=failure.traceback,
        attempts=record.state.failures + record.state.crashes,
        died_at=datetime_of(record.ended_us),
        payload=record.body or b"",
        error_type=failure.error_type,
        queue=stream.name if stream.kind == "queue" else None,
        topic=stream.topic if stream.kind == "group" else None,
        group=stream.group if stream.kind == "group" else None,
    )
