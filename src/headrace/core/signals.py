"""The signals of the engine, for logs, metrics and users. A signal without a listener costs nothing."""

from __future__ import annotations

import msgspec

from headrace.core.records.record import DeadLetter


class Signal(msgspec.Struct, frozen=True):
    """The base class of all signals: a listener to it gets every signal."""


class JobSignal(Signal, frozen=True):
    """The base class of signals about one job.

    - `id`: the id of the job
    - `task`: the name of its task
    - `queue`: its queue
    """

    id: str
    task: str
    queue: str


class JobEnqueued(JobSignal, frozen=True):
    """A job was accepted by the store.

    - `duplicate`: it had been accepted before, under this id or unique key
    """

    duplicate: bool = False


class JobStarted(JobSignal, frozen=True):
    """A handler is about to run.

    - `attempt`: 1 for the first run
    - `worker`: the id of the worker
    - `waited`: seconds since the job was enqueued
    - `late`: seconds since it could first run, which is later for a delayed job; None: a handler has
      begun with it before
    """

    attempt: int
    worker: str
    waited: float
    late: float | None = None


class JobSucceeded(JobSignal, frozen=True):
    """A handler returned.

    - `attempt`: 1 for the first run
    - `worker`: the id of the worker
    - `seconds`: how long the run took
    """

    attempt: int
    worker: str
    seconds: float


class JobFailed(JobSignal, frozen=True):
    """A run failed, timed out or was refused; `JobRetrying` or `JobDied` follows.

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


class JobRetrying(JobSignal, frozen=True):
    """A job runs again later.

    - `attempt`: the number of the run that ended
    - `delay`: seconds until the next run
    - `why`: the error, or why it was put off
    """

    attempt: int
    delay: float
    why: str


class JobDied(JobSignal, frozen=True, kw_only=True):
    """A job is in the dead letters.

    - `attempt`: how many runs it had
    - `reason`: why it died, a `DeadReason`
    - `error_type`: the class of the error
    - `error`: the text of the error
    - `traceback`: the traceback as text
    - `dead_letter`: what `admin.dead` shows of it, with its payload
    - `seconds`: how long the last run took; 0: unknown, or it was not run
    """

    attempt: int
    reason: str
    error_type: str
    error: str
    traceback: str = ""
    dead_letter: DeadLetter
    seconds: float = 0.0


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
    """An event was accepted by the store.

    - `id`: the id of the event
    - `topic`: its topic
    - `kind`: its kind
    - `duplicate`: it had been accepted before, under this idempotency key
    """

    id: str
    topic: str
    kind: str
    duplicate: bool = False


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
    """A worker takes jobs and events from now on.

    - `worker`: its id
    - `queues`: the queues that it serves
    - `concurrency`: how many jobs and events it runs at a time
    - `lease`: the lease in seconds
    - `store`: the store in a few words
    - `topics`: its subscriptions, as text for people
    """

    worker: str
    queues: tuple[str, ...]
    concurrency: int
    lease: float
    store: str
    topics: tuple[str, ...] = ()


class WorkerStopped(Signal, frozen=True):
    """A worker has stopped.

    - `worker`: its id
    - `processed`: how many jobs and events it has ended
    - `released`: how many it handed back
    """

    worker: str
    processed: int
    released: int


class WorkerStopping(Signal, frozen=True):
    """A worker claims no more.

    - `worker`: its id
    - `running`: how many jobs and events are still running
    - `grace`: how many seconds they have
    """

    worker: str
    running: int
    grace: float


class LeaseChanged(Signal, frozen=True):
    """A worker has changed the lease of a queue; the new lease holds for all workers.

    - `queue`: the queue
    - `previous`: the lease before, in seconds
    - `lease`: the lease from now on, in seconds
    """

    queue: str
    previous: float
    lease: float


class LimitChanged(Signal, frozen=True):
    """A worker has declared a limit with other figures than before; the new ones hold for all workers."""

    limit: str
    previous: str
    figures: str


class DeadDropped(Signal, frozen=True):
    """The oldest dead letters of a queue were dropped: it keeps a number of them, or for a time."""

    queue: str
    count: int


class ThreadOverdue(JobSignal, frozen=True):
    """A thread runs past its job's timeout. It cannot be stopped, so it keeps its slot until it ends."""

    timeout: float


class ChildNotStarted(Signal, frozen=True):
    """A child process could not be started, and jobs wait for it.

    - `worker`: the id of the worker
    - `error`: why
    - `delay`: seconds until the next try
    """

    worker: str
    error: str
    delay: float


class LeftTaskFailed(JobSignal, frozen=True):
    """A task that a handler started and did not wait for raised KeyboardInterrupt or SystemExit."""

    error: str


class CleanupFailed(Signal, frozen=True):
    """The lifespan, or a dependency with the worker's scope, failed while it was in use or when it ended.

    - `worker`: the id of the worker
    - `resource`: what failed
    - `error`: its error
    """

    worker: str
    resource: str
    error: str


class ClockStepped(Signal, frozen=True):
    """The store's clock was set by `seconds`; below 0: back. Leases count from now on, and nothing is
    recovered for one lease. Delayed jobs keep their due times: after a step back they wait longer."""

    seconds: float


class BackendError(Signal, frozen=True):
    """A service of the worker failed because of the store, and tries again.

    - `service`: the part of the worker
    - `error`: what the store said
    - `delay`: seconds until the next try
    """

    service: str
    error: str
    delay: float
