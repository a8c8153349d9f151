"""Signals about one event in one group."""

from __future__ import annotations

from .signal import Signal


class EventSignal(Signal, frozen=True):
    """The base class of signals about one event in one group.

    - `id`: the id of the event
    - `kind`: its kind
    - `topic`: its topic
    - `group`: the group; empty for a fan-out
    """

    id: str
    kind: str
    topic: str
    group: str


class EventHandled(EventSignal, frozen=True):
    """A handler returned, and the event is settled.

    - `attempt`: 1 for the first run
    - `worker`: the id of the worker
    - `seconds`: how long the run took
    - `waited`: seconds from its publication to this run
    """

    attempt: int
    worker: str
    seconds: float
    waited: float = 0.0


class EventFailed(EventSignal, frozen=True):
    """A run failed or was refused; `EventRetrying` or `EventDied` follows.

    - `attempt`: 1 for the first run
    - `worker`: the id of the worker
    - `seconds`: how long the run took
    - `error_type`: the class of the error
    - `error`: the text of the error
    - `traceback`: the traceback as text
    """

    attempt: int
    worker: str
    seconds: float
    error_type: str
    error: str
    traceback: str


class EventRetrying(EventSignal, frozen=True):
    """An event is handled again later.

    - `attempt`: the number of the run that ended
    - `delay`: seconds until the next run
    - `why`: the error, or why it was put off
    """

    attempt: int
    delay: float
    why: str


class EventDied(EventSignal, frozen=True):
    """An event is in the dead letters of its group. In a fan-out, which has none, it is dropped.

    - `attempt`: how many runs it had
    - `reason`: why it died, a `DeadReason`
    - `error_type`: the class of the error
    - `error`: the text of the error
    - `traceback`: the traceback as text
    - `seconds`: how long the last run took; 0: unknown, or it was not run
    """

    attempt: int
    reason: str
    error_type: str
    error: str
    traceback: str = ""
    seconds: float = 0.0


class EventExpired(EventSignal, frozen=True):
    """An event was claimed after its expiry, and was not handled."""


class EventRecovered(EventSignal, frozen=True):
    """The lease of a worker that is gone ran out, and its event is queued again."""

    crashes: int
    worker: str


class EventUnsettled(EventSignal, frozen=True):
    """A handler with `ack="manual"` returned without settling: the event comes again after its lease.

    - `worker`: the id of the worker
    """

    worker: str
