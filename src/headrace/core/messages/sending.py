"""The hook around each send of a producer. Tracing uses it to add a trace to the headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal

import msgspec

#: The W3C header that carries a trace.
TRACEPARENT = "traceparent"


class Sending(msgspec.Struct):
    """Jobs for queues, or events for a topic, that are about to be stored together.

    `headers` are those of the first message. All messages get the headers that a wrapper adds to `carried`.
    `ids` are set when the store has taken the messages.
    """

    kind: Literal["job", "event"]
    destination: str
    count: int
    name: str = ""  # the task or the kind, where there is only one
    headers: Mapping[str, str] = {}
    carried: dict[str, str] = {}
    ids: Sequence[str] = ()


#: Entered around every send, in the context of the producer.
SendingWrapper = Callable[[Sending], AbstractContextManager[object]]
