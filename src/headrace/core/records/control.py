"""Control messages, which one process announces to all workers, and the current control state, for a worker
that may have missed one."""

from __future__ import annotations

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.rules.layout import Layout


class CancelNotice(msgspec.Struct, frozen=True, array_like=True, tag="cancel"):
    """The cancellation of a running message was requested."""

    stream: Stream
    id: str


class PauseNotice(msgspec.Struct, frozen=True, array_like=True, tag="pause"):
    """A stream was paused or resumed."""

    stream: Stream
    paused: bool


class DueNotice(msgspec.Struct, frozen=True, array_like=True, tag="due"):
    """A message was scheduled that is due sooner than all others of the stream."""

    stream: Stream


class ScheduleNotice(msgspec.Struct, frozen=True, array_like=True, tag="schedule"):
    """A schedule of this stream was added, paused, resumed or removed."""

    stream: Stream


class LeaseNotice(msgspec.Struct, frozen=True, array_like=True, tag="lease"):
    """The lease of a stream was changed: workers renew their claims of it by the new one."""

    stream: Stream
    lease_us: int


class LayoutNotice(msgspec.Struct, frozen=True, array_like=True, tag="layout"):
    """The layout of this stream was changed, or a change of it was proposed."""

    stream: Stream


class MissedNotice(msgspec.Struct, frozen=True, array_like=True, tag="missed"):
    """Control messages of any stream may have been missed: a worker should read the current state again."""


ControlMessage = (
    CancelNotice | PauseNotice | DueNotice | LeaseNotice | ScheduleNotice | LayoutNotice | MissedNotice
)


class ControlState(msgspec.Struct, frozen=True):
    """The control state of the queues that a worker named, or of some of them in turns when it named many.
    It is for a worker that may have missed a control message. Leases are in microseconds. `layouts` has the
    layouts that the store can read in the same request; the worker asks for the others. `moved_to` names the
    store to which everything was moved; empty: it is here. `paused_tasks` are those of all queues."""

    paused: frozenset[Stream] = frozenset()
    leases: dict[Stream, int] = {}
    layouts: dict[Stream, Layout] = {}
    moved_to: str = ""
    paused_tasks: frozenset[str] = frozenset()
