"""Every error that headrace raises on purpose.

HeadraceError
├── ConfigurationError       a wrong URL, option, name or combination; nothing was sent
│   ├── UnknownOption        an option that does not exist; a TypeError too, as for any function
│   ├── UnknownEvent         a start or a reset names an event that the topic does not hold
│   └── StoreMoved           everything in the store was moved to another one (.target)
├── AppClosed                the app is closing or closed
├── BackendUnavailable       the store cannot be reached or cannot write (.uncertain: it may have taken it)
│   ├── ChangesRefused       the store answers, but takes no changes until it has room again
│   ├── NotDurable           stored, but without the durability that was asked for (.job, .accepted)
│   ├── NotConfirmed         NotDurable as a store raises it to the engine (.answers)
│   └── RequestRefused       the store refuses the content of the request; raised to the engine only
├── Moved                    a part of a stream is sealed; a store raises it to the router only
├── QueueFull                the queue takes no more (.accepted: what it took of the batch)
├── DuplicateJob             the job is there already, and `on_duplicate="raise"` (.job, .accepted)
├── PayloadError
│   ├── PayloadTooLarge      more bytes than `max_payload`
│   └── InvalidPayload       cannot be encoded, or does not fit the annotated types
│       └── UnverifiedPayload  not signed or encrypted by a key of this app, or changed since
├── UnknownTask              no task of that name is registered here
├── ResultError              what `Job.result()` raises
│   ├── JobFailed            it ended in the dead letters (.error_type, .error, .traceback)
│   ├── JobCancelled
│   ├── JobExpired
│   ├── ResultTimeout        not over within `timeout`; it goes on (.no_worker: no worker serves its queue)
│   └── ResultNotKept        nothing was kept to return
└── AlreadySettled           a delivery was acknowledged, rejected or retried twice
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.core.records.answers import Answer
    from headrace.jobs.handles.job import Job


class HeadraceError(Exception):
    """The base class of all errors that headrace raises."""


class ConfigurationError(HeadraceError):
    """A URL, option, name or declaration cannot work; nothing was sent or changed."""


class UnknownOption(ConfigurationError, TypeError):
    """An option that does not exist. Users see it as a `ConfigurationError`. It is a `TypeError` too, because
    a function of Python raises this for an argument that it does not have."""


class UnknownEvent(ConfigurationError):
    """A group shall begin at an event that the topic does not hold: it never did, or it was trimmed."""


class StoreMoved(ConfigurationError):
    """Everything in this store was moved, or moves just now, to the store `target`. Users see it as a
    `ConfigurationError`."""

    def __init__(self, message: str, *, target: str) -> None:
        super().__init__(message)
        self.target = target


def no_such_group(topic: str, group: str) -> ConfigurationError:
    return ConfigurationError(
        f"topic {topic!r} has no group {group!r}: a group is there once a worker has served it"
    )


class AppClosed(HeadraceError):
    """The app was used while it closes, or after its event loop has ended."""


class BackendUnavailable(HeadraceError):
    """The store cannot be reached, or cannot write.

    `uncertain`: the request was sent and its answer is not known, so the store may have taken it.
    `transient`: the same call may well succeed in a moment (a restart, a lost connection).
    """

    def __init__(self, message: str, *, uncertain: bool = False, transient: bool = False) -> None:
        super().__init__(message)
        self.uncertain = uncertain
        self.transient = transient


class ChangesRefused(BackendUnavailable):
    """The store answers, but takes no changes until there is room again in its memory or on its disk."""


@contextmanager
def after_a_part(done: object) -> Iterator[None]:
    """Make a failure in this block `uncertain` if a part is `done` already."""
    try:
        yield
    except BackendUnavailable as error:
        error.uncertain = error.uncertain or bool(done)
        raise


class NotDurable(BackendUnavailable):
    """The store took the messages but could not confirm the durability asked for. They may still run.

    `accepted` holds the jobs of this call that were taken, `job` is the first of them. `event` is the id of
    an event that was taken.
    """

    def __init__(self, message: str, *, accepted: Sequence[Job[Any]] = (), event: str | None = None) -> None:
        super().__init__(message, uncertain=True)
        self.accepted: list[Job[Any]] = list(accepted)
        self.event = event

    @property
    def job(self) -> Job[Any] | None:
        """The first job that was taken."""
        return self.accepted[0] if self.accepted else None


class NotConfirmed(BackendUnavailable):
    """A store took the messages of a batch, and gave these answers, but could not confirm the durability that
    was asked for. The engine catches this; users do not see it."""

    def __init__(self, message: str, *, answers: Sequence[Answer]) -> None:
        super().__init__(message, uncertain=True)
        self.answers: list[Answer] = list(answers)


class RequestRefused(BackendUnavailable):
    """The store can be reached, and refuses this request because of its content. The same request is refused
    again; a part of it, or another request, may be taken."""


class Moved(HeadraceError):
    """A part takes no more messages: the layout of its stream has changed and must be read again.

    `answers` has one for each message of the batch; None: this message was not taken. (A large batch may have
    been taken in part before; `undurable`, if that could not be confirmed.) The router catches this; users do
    not see it.
    """

    def __init__(self, message: str, *, answers: Sequence[Answer | None] = ()) -> None:
        super().__init__(message)
        self.answers: list[Answer | None] = list(answers)
        self.undurable: NotConfirmed | None = None


class QueueFull(HeadraceError):
    """The queue's limit is reached, or the store has no room for more; `accepted` holds the jobs of this call
    that were taken before that."""

    def __init__(self, message: str, *, accepted: Sequence[Job[Any]] = ()) -> None:
        super().__init__(message)
        self.accepted: list[Job[Any]] = list(accepted)


class DuplicateJob(HeadraceError):
    """A job with this unique key or id is there already, and the call says `on_duplicate="raise"`.

    `job` is the job that is there. `accepted` holds the jobs of this `enqueue_many` that were taken.
    """

    def __init__(self, message: str, *, job: Job[Any], accepted: Sequence[Job[Any]] = ()) -> None:
        super().__init__(message)
        self.job = job
        self.accepted: list[Job[Any]] = list(accepted)


class PayloadError(HeadraceError):
    """The value to send, or the value that arrived, is no payload for this task."""


class PayloadTooLarge(PayloadError):
    """The encoded payload is larger than the app's `max_payload`."""


class InvalidPayload(PayloadError):
    """The arguments cannot be encoded, or do not fit the parameters' types."""


class NewerVersion(PayloadError):
    """The payload has a version that this worker does not know. The engine hands it back for another worker;
    users do not see this."""


class UnverifiedPayload(InvalidPayload):
    """A signing or encrypting codec refused the bytes. Users see it as an `InvalidPayload`."""


class UnknownTask(HeadraceError):
    """No task of this name is registered in this app."""


class ResultError(HeadraceError):
    """`Job.result()` has no value to return; the subclass says why."""


class JobFailed(ResultError):
    """The job is dead. The error is here as text: the name of its type, its message, its traceback."""

    def __init__(self, message: str, *, error_type: str = "", error: str = "", traceback: str = "") -> None:
        super().__init__(message)
        self.error_type = error_type
        self.error = error
        self.traceback = traceback


class JobCancelled(ResultError):
    """The job was cancelled before it finished."""


class JobExpired(ResultError):
    """The job was not started before it expired."""


class ResultTimeout(ResultError, TimeoutError):
    """The job was not over in time. It goes on; ask again.

    `no_worker`: no worker serves the queue of the job, so it waits until one starts.
    """

    def __init__(self, message: str, *, no_worker: bool = False) -> None:
        super().__init__(message)
        self.no_worker = no_worker


class ResultNotKept(ResultError):
    """No result is kept for this job: the task keeps none, it was too large, or its time is over."""


class AlreadySettled(HeadraceError):
    """A delivery was acknowledged, rejected or retried a second time; only once is allowed."""


# Users import these from `headrace`, so tracebacks and dead letters call them `headrace.JobFailed`.
for _each in tuple(vars().values()):
    if isinstance(_each, type) and issubclass(_each, HeadraceError):
        _each.__module__ = "headrace"
