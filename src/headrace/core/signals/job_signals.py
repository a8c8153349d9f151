"""Signals about one job."""

from __future__ import annotations

from headrace.core.records.record import DeadLetter

from .signal import Signal


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


class ThreadOverdue(JobSignal, frozen=True):
    """A thread runs past its job's timeout. It cannot be stopped, so it keeps its slot until it ends."""

    timeout: float


class LeftTaskFailed(JobSignal, frozen=True):
    """A task that a handler started and did not wait for raised KeyboardInterrupt or SystemExit."""

    error: str
