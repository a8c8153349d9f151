"""What one process announces to the workers of all, and how it stands for one that may have missed it."""

from __future__ import annotations

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.rules.layout import Layout


class CancelNotice(msgspec.Struct, frozen=True):
    """A message that someone runs is to be cancelled."""

    stream: Stream
    id: str


class PauseNotice(msgspec.Struct, frozen=True):
    """A stream was paused or resumed."""

    stream: Stream
    paused: bool


class DueNotice(msgspec.Struct, frozen=True):
    """Something was scheduled that is due sooner than anything before it."""

    stream: Stream


class ScheduleNotice(msgspec.Struct, frozen=True):
    """A schedule of this stream was added, paused, resumed or removed."""

    stream: Stream


class LeaseNotice(msgspec.Struct, frozen=True):
    """The lease of a stream was changed: whoever holds claims of it renews them by the new one."""

    stream: Stream
    lease_us: int


class LayoutNotice(msgspec.Struct, frozen=True):
    """The layout of this stream was changed, or a change of it was proposed."""

    stream: Stream


class MissedNotice(msgspec.Struct, frozen=True):
    """Orders may have been missed, of whatever stream: what they were about should be looked at anew."""


ControlMessage = (
    CancelNotice | PauseNotice | DueNotice | LeaseNotice | ScheduleNotice | LayoutNotice | MissedNotice
)


class ControlState(msgspec.Struct, frozen=True):
    """Orders as they stand now, of the queues that the worker named, or of some in turns where it named many;
    leases are in microseconds.
    They are for a worker that may have missed an announcement. `layouts` are of those queues of which the
    store can say it in the same breath; the others are asked for."""

    paused: frozenset[Stream] = frozenset()
    leases: dict[Stream, int] = {}
    layouts: dict[Stream, Layout] = {}
