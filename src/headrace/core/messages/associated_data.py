"""What a `BindingCodec` binds a payload to: the fields of its message that a handler relies on.

Each kind of payload has its own first word. So arguments are never taken for a result, nor a job for an
event. Fields that only affect when and how often a message runs are not bound: a user who can write to the
store decides that anyway.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .event_envelope import EventEnvelope

_encode = msgspec.msgpack.Encoder().encode


def arguments_data(id: str, task: str, headers: Mapping[str, str] | None) -> bytes:
    """What the arguments of a job are bound to."""
    return _encode(("arguments", id, task, _sorted(headers)))


def result_data(id: str, task: str) -> bytes:
    """What the result of a job is bound to."""
    return _encode(("result", id, task))


def event_data(topic: str, envelope: EventEnvelope) -> bytes:
    """What the payload of an event is bound to: all that `Event` shows to a handler, except when
    it expires."""
    fields = (
        "event",
        envelope.id,
        topic,
        envelope.task,
        envelope.enqueued_us,
        _sorted(envelope.headers),
        envelope.key,
        envelope.source,
        envelope.content_type,
        envelope.schema_version,
        envelope.idempotency_key,
        envelope.traceparent,
        envelope.correlation_id,
    )
    # Without its own time, an event is bound as before this field existed.
    return _encode((*fields, envelope.occurred_us) if envelope.occurred_us else fields)


def schedule_data(
    queue: str, name: str, when: tuple[str, int, str], task: str, headers: Mapping[str, str] | None
) -> bytes:
    """What the arguments in a schedule are bound to. A worker that fires it binds them to each job."""
    return _encode(("schedule", queue, name, when, task, _sorted(headers)))


def _sorted(headers: Mapping[str, str] | None) -> list[tuple[str, str]]:
    return sorted((headers or {}).items())
