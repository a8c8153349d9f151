"""Signals about a worker: its run, what it declares, and what fails in it."""

from __future__ import annotations

from .signal import Signal


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


class ChildNotStarted(Signal, frozen=True):
    """A child process could not be started, and jobs wait for it.

    - `worker`: the id of the worker
    - `error`: why
    - `delay`: seconds until the next try
    """

    worker: str
    error: str
    delay: float


class CleanupFailed(Signal, frozen=True):
    """The lifespan, or a dependency with the worker's scope, failed while it was in use or when it ended.

    - `worker`: the id of the worker
    - `resource`: what failed
    - `error`: its error
    """

    worker: str
    resource: str
    error: str
