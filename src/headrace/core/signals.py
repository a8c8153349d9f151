"""The signals of the engine, for logs, metrics and users. A signal without a listener costs nothing."""

from __future__ import annotations

import msgspec


class Signal(msgspec.Struct, frozen=True):
    """The base class of all signals: a listener to it gets every signal."""


class JobSignal(Signal, frozen=True):
    """The base class of signals about one job."""

    id: str
    task: str
    queue: str


class JobEnqueued(JobSignal, frozen=True):
    """A job was accepted by the store."""

    duplicate: bool = False


class JobStarted(JobSignal, frozen=True):
    """A handler is about to run. `waited`: seconds since the job was enqueued. `late`: seconds since it could
    first run, which is later for a delayed job; None: a handler has begun with it before."""

    attempt: int
    worker: str
    waited: float
    late: float | None = None


class JobSucceeded(JobSignal, frozen=True):
    """A handler returned."""

    attempt: int
    worker: str
    seconds: float


class JobFailed(JobSignal, frozen=True):
    """A run failed, timed out or was refused; `JobRetrying` or `JobDied` follows."""

    attempt: int
    worker: str
    seconds: float
    error_type: str
    error: str
    traceback: str


class JobRetrying(JobSignal, frozen=True):
    """A job runs again in `delay` seconds, because of `why`."""

    attempt: int
    delay: float
    why: str


class JobDied(JobSignal, frozen=True):
    """A job is in the dead letters."""

    attempt: int
    reason: str
    error_type: str
    error: str
    traceback: str = ""


class JobCancelled(JobSignal, frozen=True):
    """A running job was cancelled, and its worker has stopped it."""


class JobExpired(JobSignal, frozen=True):
    """A job was claimed after its expiry, and was not started."""


class JobRecovered(JobSignal, frozen=True):
    """The lease of a worker that is gone ran out, and its job is queued again."""

    crashes: int
    worker: str


class LeaseLost(JobSignal, frozen=True):
    """This worker no longer holds the job; the store will refuse its outcome."""

    worker: str


class EventPublished(Signal, frozen=True):
    """An event was accepted by the store, or had been before (`duplicate`)."""

    id: str
    topic: str
    kind: str
    duplicate: bool = False


class EventSignal(Signal, frozen=True):
    """The base class of signals about one event in one group. A fan-out has no group."""

    id: str
    kind: str
    topic: str
    group: str


class EventHandled(EventSignal, frozen=True):
    """A handler returned, and the event is settled. `waited`: seconds from its publication to this run."""

    attempt: int
    worker: str
    seconds: float
    waited: float = 0.0


class EventFailed(EventSignal, frozen=True):
    """A run failed or was refused; `EventRetrying` or `EventDied` follows."""

    attempt: int
    worker: str
    seconds: float
    error_type: str
    error: str
    traceback: str


class EventRetrying(EventSignal, frozen=True):
    """An event is handled again in `delay` seconds, because of `why`."""

    attempt: int
    delay: float
    why: str


class EventDied(EventSignal, frozen=True):
    """An event is in the dead letters of its group. In a fan-out, which has none, it is dropped."""

    attempt: int
    reason: str
    error_type: str
    error: str
    traceback: str = ""


class EventExpired(EventSignal, frozen=True):
    """An event was claimed after its expiry, and was not handled."""


class EventRecovered(EventSignal, frozen=True):
    """The lease of a worker that is gone ran out, and its event is queued again."""

    crashes: int
    worker: str


class EventUnsettled(EventSignal, frozen=True):
    """A handler with `ack="manual"` returned without settling: the event comes again after its lease."""

    worker: str


class TopicHeld(Signal, frozen=True):
    """Events are kept beyond the topic's retention, because this group has not drawn them yet."""

    topic: str
    group: str


class GroupPassed(Signal, frozen=True):
    """No member of this group was seen for so long that the topic no longer keeps events for it."""

    topic: str
    group: str


class OrderDisputed(Signal, frozen=True):
    """Members of this group disagree about `ordered`. It is ordered while one that wants order is seen."""

    topic: str
    group: str


class GroupStalled(Signal, frozen=True):
    """So many keys of this ordered group are stuck that it draws no more events of other keys."""

    topic: str
    group: str


class WorkerStarted(Signal, frozen=True):
    """A worker takes jobs and events from now on. `topics` are its subscriptions, as text for people."""

    worker: str
    queues: tuple[str, ...]
    concurrency: int
    lease: float
    store: str
    topics: tuple[str, ...] = ()


class WorkerStopped(Signal, frozen=True):
    """A worker has stopped. `released` jobs were handed back."""

    worker: str
    processed: int
    released: int


class WorkerStopping(Signal, frozen=True):
    """A worker claims no more; `running` jobs have `grace` seconds to end."""

    worker: str
    running: int
    grace: float


class LeaseChanged(Signal, frozen=True):
    """A worker has changed the lease of a queue; the new lease holds for all workers."""

    queue: str
    previous: float
    lease: float


class ThreadOverdue(JobSignal, frozen=True):
    """A thread runs past its job's timeout. It cannot be stopped, so it keeps its slot until it ends."""

    timeout: float


class ChildNotStarted(Signal, frozen=True):
    """A child process could not be started, and jobs wait for it; the next try is after `delay` seconds."""

    worker: str
    error: str
    delay: float


class LeftTaskFailed(JobSignal, frozen=True):
    """A task that a handler started and did not wait for raised KeyboardInterrupt or SystemExit."""

    error: str


class CleanupFailed(Signal, frozen=True):
    """The lifespan, or a dependency with the worker's scope, failed while it was in use or when it ended."""

    worker: str
    resource: str
    error: str


class ClockStepped(Signal, frozen=True):
    """The store's clock was set by `seconds`; below 0: back. Leases count from now on, and nothing is
    recovered for one lease. Delayed jobs keep their due times: after a step back they wait longer."""

    seconds: float


class BackendError(Signal, frozen=True):
    """A service of the worker failed because of the store, and tries again after `delay` seconds."""

    service: str
    error: str
    delay: float
