"""The body of an event: the fields of a job's envelope, followed by fields that only events have.

The first fields are those of `Envelope`, in the same places, so that the engine reads both in the same way:
the kind is where a job has its task, the time of the event where a job has the time it was enqueued.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headrace.core.values.bounds import Count, MomentUs

from .message import Envelope

#: The content type of a payload when the publisher gives none.
CONTENT_TYPE: Final = "application/msgpack"


class EventEnvelope(Envelope, frozen=True, array_like=True, gc=False):
    """An event with its payload, its key and its origin."""

    key: str = ""
    source: str = ""
    content_type: str = CONTENT_TYPE
    schema_version: Count = 1
    idempotency_key: str = ""
    traceparent: str = ""
    correlation_id: str = ""
    occurred_us: MomentUs = 0  # 0: when it was published


_event = msgspec.msgpack.Decoder(EventEnvelope)

decode_event = _event.decode
