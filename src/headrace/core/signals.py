"""What the engine announces. Logs, metrics and users listen; with no listener a signal costs nothing."""

from __future__ import annotations

import msgspec


class Signal(msgspec.Struct, frozen=True):
    """The root of all signals: listen to it to hear everything."""


class JobSignal(Signal, frozen=True):
    """Something happened to one job."""

    id: str
    task: str
    queue: str


class JobEnqueued(JobSignal, frozen=True):
    """A job was accepted by the store."""

    duplicate: bool = False


class JobStarted(JobSignal, frozen=True):
    """A handler is about to run. `waited`: seconds since it was enqueued; `late`: since it could first run,
    which for a delayed job is later. None: it has been in a handler before."""

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
    """A run failed, timed out or was refused; what follows is announced by `JobRetrying` or `JobDied`."""

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
    """A running job was cancelled, and its worker has let go of it."""


class JobExpired(JobSignal, frozen=True):
    """A job was claimed too late to be started."""


class JobRecovered(JobSignal, frozen=True):
    """The lease of a worker that is gone ran out, and its job is queued again."""

    crashes: int
    worker: str


class LeaseLost(JobSignal, frozen=True):
    """This worker no longer holds the job; its late outcome will be refused."""

    worker: str


class EventPublished(Signal, frozen=True):
    """An event was accepted by the store, or had been before (`duplicate`)."""

    id: str
    topic: str
    kind: str
    duplicate: bool = False


class EventSignal(Signal, frozen=True):
    """Something happened to one event in one group. A fan-out has no group."""

    id: str
    kind: str
    topic: str
    group: str


class EventHandled(EventSignal, frozen=True):
    """A handler returned, and the event is settled. `waited`: seconds from its publishing to this run."""

    attempt: int
    worker: str
    seconds: float
    waited: float = 0.0


class EventFailed(EventSignal, frozen=True):
    """A run failed or was refused; what follows is announced by `EventRetrying` or `EventDied`."""

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
    """An event is in the group's dead letters; of a fan-out, which has none, it is given up."""

    attempt: int
    reason: str
    error_type: str
    error: str
    traceback: str = ""


class EventExpired(EventSignal, frozen=True):
    """An event came too late to be handled."""


class EventRecovered(EventSignal, frozen=True):
    """The lease of a worker that is gone ran out, and its event is to be handled again."""

    crashes: int
    worker: str


class EventUnsettled(EventSignal, frozen=True):
    """A handler with `ack="manual"` returned without settling: it comes again when its lease is out."""

    worker: str


class TopicHeld(Signal, frozen=True):
    """Events are kept beyond the topic's retention, because this group has not drawn them yet."""

    topic: str
    group: str


class GroupPassed(Signal, frozen=True):
    """No member of this group was seen for so long that it no longer holds its topic's events."""

    topic: str
    group: str


class OrderDisputed(Signal, frozen=True):
    """Members of this group disagree about `ordered`. It is ordered as long as one that wants so is seen."""

    topic: str
    group: str


class GroupStalled(Signal, frozen=True):
    """So many keys of this ordered group are stuck that it draws no more events of other keys."""

    topic: str
    group: str


class WorkerStarted(Signal, frozen=True):
    """A worker takes jobs and events from now on. `topics` are its subscriptions, as people call them."""

    worker: str
    queues: tuple[str, ...]
    concurrency: int
    lease: float
    store: str
    topics: tuple[str, ...] = ()


class WorkerStopped(Signal, frozen=True):
    """A worker has let go of everything. `released` jobs were handed back."""

    worker: str
    processed: int
    released: int


class WorkerStopping(Signal, frozen=True):
    """A worker claims no more; `running` jobs have `grace` seconds to end."""

    worker: str
    running: int
    grace: float


class LeaseChanged(Signal, frozen=True):
    """A worker asked for another lease than the queue had; it now holds for all."""

    queue: str
    previous: float
    lease: float


class ThreadOverdue(JobSignal, frozen=True):
    """A thread went past its job's timeout. It cannot be stopped, so it keeps its slot until it ends."""

    timeout: float


class ChildNotStarted(Signal, frozen=True):
    """A child process could not be started, and jobs wait for it; it is tried again after `delay` seconds."""

    worker: str
    error: str
    delay: float


class LeftTaskFailed(JobSignal, frozen=True):
    """A task that a handler started and did not wait for raised KeyboardInterrupt or SystemExit."""

    error: str


class CleanupFailed(Signal, frozen=True):
    """The lifespan, or a dependency with the worker's scope, failed while it was held or left."""

    worker: str
    resource: str
    error: str


class ClockStepped(Signal, frozen=True):
    """Somebody has set the store's clock by so many seconds; below 0: back. Leases count from now on, and
    nothing is recovered for one lease. Delayed jobs keep their due times: after a step back they wait for
    longer."""

    seconds: float


class BackendError(Signal, frozen=True):
    """The store failed a service of the worker, which tries again after `delay` seconds."""

    service: str
    error: str
    delay: float
