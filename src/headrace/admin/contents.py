"""What a job or an event carries, as plain data for people to read, with `***` for each secret."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headrace.core.clock import datetime_of
from headrace.core.codec import Codec
from headrace.core.decoding import DECODE_ERRORS
from headrace.core.event import decode_event
from headrace.core.message import decode_envelope
from headrace.core.record import Record, moment
from headrace.core.secret import masked
from headrace.core.topics import LogEntry


class EventInfo(msgspec.Struct, frozen=True):
    """An event for people to read. `number` is its place in the log and `at` when it was written there, both
    only known to who reads the log. `problem`: why its payload, or all of it, cannot be read."""

    id: str
    topic: str
    number: int = 0
    at: datetime | None = None
    occurred_at: datetime | None = None
    kind: str = ""
    key: str | None = None
    source: str | None = None
    payload: Any = None
    headers: dict[str, str] = {}
    schema_version: int = 1
    idempotency_key: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    expires_at: datetime | None = None
    problem: str = ""


class Contents(msgspec.Struct, frozen=True):
    """The arguments and headers of a job. An event has no arguments: all of it is in `event`.

    `problem`: why the arguments, or the payload, cannot be read.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    headers: dict[str, str] = {}
    problem: str = ""
    event: EventInfo | None = None


class _PlainArguments(msgspec.Struct, array_like=True):
    args: list[Any]
    kwargs: dict[str, Any] = {}


def contents_of(record: Record, codec: Codec | None) -> Contents | None:
    """None where the body is gone."""
    if record.body is None:
        return None
    if record.stream.kind == "queue":
        return _job_contents(record.body, codec)
    event = read_event(LogEntry(0, record.id, record.task, record.body, 0), record.stream.topic, codec)
    return Contents(headers=event.headers, problem=event.problem, event=event)


def read_event(entry: LogEntry, topic: str, codec: Codec | None) -> EventInfo:
    """What lies in a log or in a group, as far as it can be read."""
    bare = EventInfo(
        id=entry.id,
        topic=topic,
        number=entry.number,
        at=moment(entry.at_us),
        kind=entry.task,
        key=entry.key or None,
        expires_at=moment(entry.expires_us),
    )
    try:
        envelope = decode_event(entry.body)
    except DECODE_ERRORS as error:
        return msgspec.structs.replace(bare, problem=f"the message cannot be read: {error}")
    payload, problem = _payload(envelope.payload, codec)
    return msgspec.structs.replace(
        bare,
        occurred_at=datetime_of(envelope.enqueued_us),
        key=envelope.key or None,
        source=envelope.source or None,
        payload=payload,
        headers=envelope.headers or {},
        schema_version=envelope.schema_version,
        idempotency_key=envelope.idempotency_key or None,
        correlation_id=envelope.correlation_id or None,
        traceparent=envelope.traceparent or None,
        problem=problem,
    )


def _payload(data: bytes, codec: Codec | None) -> tuple[Any, str]:
    try:
        return msgspec.msgpack.decode(_unwrapped(data, codec), ext_hook=masked), ""
    except Exception as error:  # a codec may raise anything
        return None, f"the payload cannot be read: {error}"


def _job_contents(body: bytes, codec: Codec | None) -> Contents:
    try:
        envelope = decode_envelope(body)
    except DECODE_ERRORS as error:
        return Contents(problem=f"the message cannot be read: {error}")
    headers = envelope.headers or {}
    try:
        payload = _unwrapped(envelope.payload, codec)
        arguments = msgspec.msgpack.decode(payload, type=_PlainArguments, ext_hook=masked)
    except Exception as error:  # a codec may raise anything
        return Contents(headers=headers, problem=f"the arguments cannot be read: {error}")
    return Contents(tuple(arguments.args), arguments.kwargs, headers)


def _unwrapped(data: bytes, codec: Codec | None) -> bytes:
    return data if codec is None else codec.decode(data)
