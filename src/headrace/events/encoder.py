"""Turns an event into the message that is stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec

from headrace.core.encoding import encoding
from headrace.core.encoding.codec import AppCodec, BindingCodec, binding
from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.errors import ConfigurationError, InvalidPayload, PayloadTooLarge
from headrace.core.messages.associated_data import event_data
from headrace.core.messages.event_envelope import CONTENT_TYPE, EventEnvelope
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import (
    ENVELOPE_ROOM,
    ENVELOPE_VERSION,
    Message,
    UniqueKey,
    encode_envelope,
)
from headrace.core.messages.sending import TRACEPARENT
from headrace.core.runtime.clock import SECOND, TimeSource, microseconds
from headrace.core.values.checks import checked_headers, due_moment, short_text
from headrace.core.values.durations import Duration, positive_seconds, seconds
from headrace.core.values.whole_numbers import positive_number

from .event import Inherited

T = TypeVar("T")

#: The earliest time of an event: stored times count from it.
EARLIEST: Final = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


class EventDraft(msgspec.Struct, Generic[T], frozen=True):
    """An event before it is published: a payload with its options. `topic.message(...)` makes it, and
    `publish_many` takes it."""

    payload: T
    key: str | None = None
    headers: Mapping[str, str] | None = None
    kind: str | None = None
    source: str | None = None
    delay: Duration | None = None
    at: datetime | None = None
    expires: Duration | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    schema_version: int | None = None
    occurred_at: datetime | None = None
    content_type: str | None = None


class EventEncoder:
    """Makes the messages of one topic: encodes the payload once, and checks types, sizes and options."""

    def __init__(
        self,
        *,
        topic: str,
        wanted: Any,
        schema_version: int,
        window_us: int,
        clock: TimeSource,
        codec: AppCodec | None,
        max_payload: int,
    ) -> None:
        self._topic = topic
        self._wanted = wanted
        self._is_class = isinstance(wanted, type)
        self._kind = getattr(wanted, "__name__", "event") if wanted is not Any else "event"
        self._schema_version = schema_version
        self._window_us = window_us
        self._clock = clock
        self._binding = binding(codec)
        self._codec = None if isinstance(codec, BindingCodec) else codec
        self._max_payload = max_payload

    def encode(self, draft: EventDraft[Any], inherited: Inherited) -> Message:
        """The message of an event; a `HeadraceError` when it cannot be sent."""
        payload = self._payload(draft.payload)
        envelope = self._envelope(draft, payload, inherited)
        if self._binding is not None:
            envelope = self._bound(envelope, self._binding)
        body = encode_envelope(envelope)
        if len(body) - len(envelope.payload) > ENVELOPE_ROOM:
            raise PayloadTooLarge(
                f"the headers and options of the event have more than {ENVELOPE_ROOM:,} bytes"
            )
        if draft.delay is not None and draft.at is not None:
            raise ConfigurationError("an event takes delay= or at=, not both")
        lifetime = None if draft.expires is None else positive_seconds("expires", draft.expires)
        return Message(
            envelope.id,
            envelope.task,
            body,
            delay_us=0 if draft.delay is None else microseconds(seconds("delay", draft.delay)),
            due_us=0 if draft.at is None else round(due_moment("at", draft.at).timestamp() * SECOND),
            lifetime_us=0 if lifetime is None else microseconds(lifetime),
            unique=self._unique(draft),
            fresh=True,
            key=envelope.key,
        )

    def _envelope(self, draft: EventDraft[Any], payload: bytes, inherited: Inherited) -> EventEnvelope:
        traceparent, correlation_id = inherited
        headers = None if draft.headers is None else checked_headers("headers", draft.headers)
        return EventEnvelope(
            ENVELOPE_VERSION,
            new_id(),
            _optional("kind", draft.kind) or self._kind_of(draft.payload),
            self._clock.now_us(),
            headers,
            None,
            payload,
            key=_optional("key", draft.key),
            source=_optional("source", draft.source),
            content_type=_optional("content_type", draft.content_type) or CONTENT_TYPE,
            schema_version=self._version(draft.schema_version),
            idempotency_key=_optional("idempotency_key", draft.idempotency_key),
            traceparent=(headers or {}).get(TRACEPARENT) or traceparent,
            correlation_id=_optional("correlation_id", draft.correlation_id) or correlation_id,
            occurred_us=0 if draft.occurred_at is None else _occurred_us(draft.occurred_at),
        )

    def _version(self, given: int | None) -> int:
        return self._schema_version if given is None else positive_number("schema_version", given)

    def _kind_of(self, payload: object) -> str:
        return self._kind if self._kind != "event" else type(payload).__name__

    def _payload(self, value: object) -> bytes:
        encoded = encoding.encode(value)
        if self._secret:
            # Encoded once more through the type: a field may say that a plain value is a secret.
            encoded = encoding.encode(self._checked(encoded))
        elif self._wanted is not Any and not (self._is_class and type(value) is self._wanted):
            encoding.check_kinds(value, self._checked(encoded))
        payload = encoded if self._codec is None else self._codec.encode(encoded)
        if len(payload) > self._max_payload:
            self._refuse(payload)
        return payload

    def _bound(self, envelope: EventEnvelope, codec: BindingCodec) -> EventEnvelope:
        """The envelope with its payload as a codec stores it, which binds it to this event."""
        payload = codec.encode_for(envelope.payload, event_data(self._topic, envelope))
        if len(payload) > self._max_payload:
            self._refuse(payload)
        return msgspec.structs.replace(envelope, payload=payload)

    def _refuse(self, payload: bytes) -> NoReturn:
        raise PayloadTooLarge(
            f"the event has {len(payload):,} bytes, more than the {self._max_payload:,} allowed: send a "
            "reference instead, or raise max_payload on both ends"
        )

    def _checked(self, encoded: bytes) -> Any:
        """The payload as subscribers decode it. Publishing refuses a payload that no subscriber can
        decode."""
        try:
            return self._decoder.decode(encoded)
        except DECODE_ERRORS as error:
            raise InvalidPayload(f"the event is not a valid {self._kind}: {error}") from error

    @cached_property
    def _secret(self) -> bool:
        return encoding.holds_secrets(self._wanted)

    @cached_property
    def _decoder(self) -> msgspec.msgpack.Decoder[Any]:
        return encoding.decoder(self._wanted)

    def _unique(self, draft: EventDraft[Any]) -> UniqueKey | None:
        if draft.idempotency_key is None:
            return None
        return UniqueKey(draft.idempotency_key, "elapsed", self._window_us)


def _occurred_us(given: object) -> int:
    moment = due_moment("occurred_at", given)
    if moment < EARLIEST:
        raise ConfigurationError(f"occurred_at must be after {EARLIEST:%Y-%m-%d} UTC, not {given!r}")
    return round(moment.timestamp() * SECOND)


def _optional(name: str, value: object) -> str:
    return "" if value is None else short_text(name, value)
