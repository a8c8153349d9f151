"""The seam around what producers send: whoever traces wraps it, and has a trace travel along."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal

import msgspec

#: The header of the W3C in which a trace travels.
TRACEPARENT = "traceparent"


class Sending(msgspec.Struct):
    """Jobs for queues, or events for a topic, that are about to be stored together.

    `headers` are those that the first of them has been given; what a wrapper adds to `carried` all of them
    carry. `ids` are there when the store has taken them.
    """

    kind: Literal["job", "event"]
    destination: str
    count: int
    name: str = ""  # the task or the kind, where there is only one
    headers: Mapping[str, str] = {}
    carried: dict[str, str] = {}
    ids: Sequence[str] = ()


#: Entered around every sending, in the context of whoever sends.
SendingWrapper = Callable[[Sending], AbstractContextManager[object]]
