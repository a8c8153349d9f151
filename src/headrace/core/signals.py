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
    """A handler is about to run. `waited`: seconds since it was enqueued."""

    attempt: int
    worker: str
    waited: float


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


class WorkerStarted(Signal, frozen=True):
    """A worker takes jobs from now on."""

    worker: str
    queues: tuple[str, ...]
    concurrency: int
    lease: float
    store: str


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


class CleanupFailed(Signal, frozen=True):
    """The lifespan, or a dependency with the worker's scope, failed while it was held or left."""

    worker: str
    resource: str
    error: str


class BackendError(Signal, frozen=True):
    """The store failed a service of the worker, which tries again after `delay` seconds."""

    service: str
    error: str
    delay: float
