"""The contents of a job or an event as plain data for people to read, with `***` for each secret."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import datetime
from inspect import Parameter
from typing import Any, Final

import msgspec

from headrace.core.encoding.codec import AppCodec
from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.associated_data import event_data
from headrace.core.messages.event_envelope import EventEnvelope, decode_event
from headrace.core.messages.message import decode_envelope
from headrace.core.records.plain_arguments import opened, plain_arguments
from headrace.core.records.record import Record, moment
from headrace.core.runtime.clock import datetime_of
from headrace.core.topics.topic import LogEntry
from headrace.core.values.secret import masked

_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class EventInfo(msgspec.Struct, frozen=True):
    """An event for people to read. `number` is its position in the log, and `at` is when it was written
    there. Both are known only when it is read from the log. `problem`: why its payload, or all of it, cannot
    be read."""

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


def contents_of(record: Record, codec: AppCodec | None) -> Contents | None:
    """None when the body is gone."""
    if record.body is None:
        return None
    if record.stream.kind == "queue":
        return _job_contents(record.id, record.body, codec)
    event = read_event(LogEntry(0, record.id, record.task, record.body, 0), record.stream.topic, codec)
    return Contents(headers=event.headers, problem=event.problem, event=event)


def named_arguments(contents: Contents, function: Callable[..., Any] | None) -> Iterator[tuple[str, Any]]:
    """The arguments under the names of the parameters. Without a name an argument has its index, as `[0]`:
    the arguments of a task that this app does not know (None), and those of `*args`."""
    parameters = inspect.signature(function).parameters.values() if function else ()
    names = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    for index, value in enumerate(contents.args):
        yield names[index] if index < len(names) else f"[{index}]", value
    yield from contents.kwargs.items()


def read_event(entry: LogEntry, topic: str, codec: AppCodec | None) -> EventInfo:
    """An event of a log or of a group, as far as it can be read."""
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
    payload, problem = _payload(entry.id, topic, envelope, codec)
    return msgspec.structs.replace(
        bare,
        occurred_at=datetime_of(envelope.occurred_us or envelope.enqueued_us),
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


def _payload(id: str, topic: str, envelope: EventEnvelope, codec: AppCodec | None) -> tuple[Any, str]:
    try:
        data = opened(id, envelope, codec, event_data(topic, envelope))
        return msgspec.msgpack.decode(data, ext_hook=masked), ""
    except Exception as error:  # a codec may raise anything
        return None, f"the payload cannot be read: {error}"


def _job_contents(id: str, body: bytes, codec: AppCodec | None) -> Contents:
    try:
        envelope = decode_envelope(body)
    except DECODE_ERRORS as error:
        return Contents(problem=f"the message cannot be read: {error}")
    plain = plain_arguments(id, envelope, codec)
    return Contents(plain.args, plain.kwargs, envelope.headers or {}, plain.problem)
