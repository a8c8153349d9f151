"""The body of an event: an envelope as a job has one, with what only events carry behind it.

The first fields are those of `Envelope`, in the same places, so that the engine reads both alike: the kind
stands where a job has its task, the time it occurred where a job has the time it was enqueued.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headrace.core.values.bounds import Count

from .message import Envelope

#: What the payload is, unless somebody says otherwise.
CONTENT_TYPE: Final = "application/msgpack"


class EventEnvelope(Envelope, frozen=True, array_like=True, gc=False):
    """Who it is about and where it comes from, beside the payload."""

    key: str = ""
    source: str = ""
    content_type: str = CONTENT_TYPE
    schema_version: Count = 1
    idempotency_key: str = ""
    traceparent: str = ""
    correlation_id: str = ""


_event = msgspec.msgpack.Decoder(EventEnvelope)

decode_event = _event.decode
