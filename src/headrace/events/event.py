"""An event as handlers see it, and the outcomes of publishing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec

from headrace.core.messages.event_envelope import CONTENT_TYPE, EventEnvelope, decode_event
from headrace.core.messages.sending import TRACEPARENT
from headrace.core.records.record import moment
from headrace.core.runtime.clock import datetime_of
from headrace.engine.running.run import current_run

T = TypeVar("T")

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

#: The header of a job in which the correlation id of the event that started it travels.
CORRELATION_ID = "correlation-id"

#: The trace and the correlation id that an event gets from the run that publishes it.
Inherited = tuple[str, str]


class Event(msgspec.Struct, Generic[T], frozen=True):
    """The payload with its envelope. A handler that needs the envelope takes `Event[OrderPlaced]`.

    - `id`: its id
    - `topic`: the topic to which it was published
    - `payload`: the payload, in the type of the topic
    - `kind`: the kind of the event; by default the name of its type
    - `occurred_at`: when it happened
    - `key`: ordered groups handle events of one key one at a time
    - `source`: where it comes from
    - `headers`: texts that travel with it
    - `content_type`: what the payload is, as a text for its readers
    - `schema_version`: the version of the payload
    - `idempotency_key`: events with the same key are stored once
    - `expires_at`: when it is too late to handle it
    - `traceparent`: its trace
    - `correlation_id`: what it belongs to
    """

    id: str
    topic: str
    payload: T
    kind: str
    occurred_at: datetime
    key: str | None = None
    source: str | None = None
    headers: Mapping[str, str] = NO_HEADERS
    content_type: str = CONTENT_TYPE
    schema_version: int = 1
    idempotency_key: str | None = None
    expires_at: datetime | None = None
    traceparent: str | None = None
    correlation_id: str | None = None


class Published(msgspec.Struct, frozen=True):
    """The event was stored under this id."""

    id: str


class Duplicate(msgspec.Struct, frozen=True):
    """An event with the same idempotency key was stored before, under this id. This event was not stored."""

    id: str


class Refused(msgspec.Struct, frozen=True):
    """The event was not stored, because of this error."""

    error: Exception


#: The outcome of publishing one of many events.
PublishOutcome = Published | Duplicate | Refused


def inherited() -> Inherited:
    """What an event inherits from the current run; empty texts if there is none."""
    run = current_run.get(None)
    if run is None:
        return "", ""
    if run.topic is None:
        return run.headers.get(TRACEPARENT, ""), run.headers.get(CORRELATION_ID, "")
    event = decode_event(run.claim.body)
    return event.traceparent, event.correlation_id or event.id


def handed_on(event: Event[Any]) -> dict[str, str]:
    """The headers of a job that an event starts."""
    added = {TRACEPARENT: event.traceparent, CORRELATION_ID: event.correlation_id or event.id}
    return {**event.headers, **{name: text for name, text in added.items() if text}}


def event_of(envelope: EventEnvelope, topic: str, payload: Any, expires_us: int) -> Event[Any]:
    """The event of an envelope, with its decoded payload."""
    return Event(
        id=envelope.id,
        topic=topic,
        payload=payload,
        kind=envelope.task,
        occurred_at=datetime_of(envelope.occurred_us or envelope.enqueued_us),
        key=envelope.key or None,
        source=envelope.source or None,
        headers=envelope.headers or NO_HEADERS,
        content_type=envelope.content_type,
        schema_version=envelope.schema_version,
        idempotency_key=envelope.idempotency_key or None,
        expires_at=moment(expires_us),
        traceparent=envelope.traceparent or None,
        correlation_id=envelope.correlation_id or None,
    )
