"""Every error that headrace raises on purpose.

HeadraceError
├── ConfigurationError       a wrong URL, option, name or combination; nothing was sent
│   └── UnknownEvent         a start or a reset names an event that the topic does not hold
├── AppClosed                the app is closing or closed under the caller
├── BackendUnavailable       the store cannot be reached or cannot write (.uncertain: it may have taken it)
│   ├── ChangesRefused       it answers, but takes no changes until somebody makes room
│   ├── NotDurable           stored, but not as safely as was asked (.job, .accepted)
│   ├── NotConfirmed         the same, between stores and the engine (.answers)
│   └── RequestRefused       for what stands in the request; between stores and the engine
├── Moved                    a part of a stream is sealed; between stores and what spreads messages over parts
├── QueueFull                the queue refused more (.accepted: what it took of the batch)
├── PayloadError
│   ├── PayloadTooLarge      more bytes than `max_payload`
│   └── InvalidPayload       cannot be encoded, or does not fit the annotated types
├── UnknownTask              no task of that name is registered here
├── ResultError              what `Job.result()` raises
│   ├── JobFailed            it ended in the dead letters (.error_type, .error, .traceback)
│   ├── JobCancelled
│   ├── JobExpired
│   ├── ResultTimeout        not over within `timeout`; the job goes on
│   └── ResultNotKept        nothing was kept to return
└── AlreadySettled           a delivery was acknowledged, rejected or retried twice
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.jobs.job import Job

    from .records.answers import Answer


class HeadraceError(Exception):
    """The root of the tree: catch this to catch everything headrace raises."""


class ConfigurationError(HeadraceError):
    """Something that was declared cannot work; nothing was sent or changed."""


class UnknownEvent(ConfigurationError):
    """A group is to begin at an event that the topic does not hold: it never did, or it was trimmed."""


class AppClosed(HeadraceError):
    """The app was used while it closes, or from a place where its event loop is gone."""


class BackendUnavailable(HeadraceError):
    """The store cannot be reached, or cannot write.

    With `uncertain` the request was sent and its answer is not known: the store may have taken it. With
    `transient` the same call may well succeed in a moment (a restart, a lost connection).
    """

    def __init__(self, message: str, *, uncertain: bool = False, transient: bool = False) -> None:
        super().__init__(message)
        self.uncertain = uncertain
        self.transient = transient


class ChangesRefused(BackendUnavailable):
    """The store answers, but takes no changes until somebody has made room: in its memory, or on its disk."""


@contextmanager
def after_a_part(done: object) -> Iterator[None]:
    """What fails here leaves open whether anything was changed, if a part is `done` already."""
    try:
        yield
    except BackendUnavailable as error:
        error.uncertain = error.uncertain or bool(done)
        raise


class NotDurable(BackendUnavailable):
    """The store took it but could not confirm the durability asked for. What was taken may still run.

    `accepted` holds the jobs of this call that were taken, `job` is the first of them. `event` is the id of
    an event that was taken.
    """

    def __init__(self, message: str, *, accepted: Sequence[Job[Any]] = (), event: str | None = None) -> None:
        super().__init__(message, uncertain=True)
        self.accepted: list[Job[Any]] = list(accepted)
        self.event = event

    @property
    def job(self) -> Job[Any] | None:
        return self.accepted[0] if self.accepted else None


class NotConfirmed(BackendUnavailable):
    """A store took the messages of a batch, and gave these answers, but could not confirm the durability that
    was asked for. Nobody outside of stores and engine meets this."""

    def __init__(self, message: str, *, answers: Sequence[Answer]) -> None:
        super().__init__(message, uncertain=True)
        self.answers: list[Answer] = list(answers)


class RequestRefused(BackendUnavailable):
    """The store can be reached, and refuses this request for what stands in it. The same again is refused
    again; a part of it, or another request, may be taken."""


class Moved(HeadraceError):
    """A part takes no more messages: the layout of its stream was changed, and is to be read anew.

    `answers` has one for each message of the batch; None: this one was not taken. (A large batch may have
    been taken in part before; `undurable`, if that could not be confirmed.) Nobody outside of `backends`
    meets this.
    """

    def __init__(self, message: str, *, answers: Sequence[Answer | None] = ()) -> None:
        super().__init__(message)
        self.answers: list[Answer | None] = list(answers)
        self.undurable: NotConfirmed | None = None


class QueueFull(HeadraceError):
    """The queue's limit is reached, or the store has no room for more; `accepted` holds the jobs of this call
    that were taken before it was."""

    def __init__(self, message: str, *, accepted: Sequence[Job[Any]] = ()) -> None:
        super().__init__(message)
        self.accepted: list[Job[Any]] = list(accepted)


class PayloadError(HeadraceError):
    """What was to be sent, or what arrived, is no payload for this task."""


class PayloadTooLarge(PayloadError):
    """The encoded payload is larger than the app's `max_payload`."""


class InvalidPayload(PayloadError):
    """The arguments cannot be encoded, or do not fit the parameters' types."""


class UnknownTask(HeadraceError):
    """No task of this name is registered in this app."""


class ResultError(HeadraceError):
    """There is no value to return; the subclass says why."""


class JobFailed(ResultError):
    """The job is dead. The remote error travels as text: its type's name, its message, its traceback."""

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
    """The job was not over in time. It goes on; ask again."""


class ResultNotKept(ResultError):
    """No result is kept for this job: the task keeps none, it was too large, or its time has passed."""


class AlreadySettled(HeadraceError):
    """A delivery can be acknowledged, rejected or retried once."""


# Users import these from `headrace`, so tracebacks and dead letters call them `headrace.JobFailed`.
for _each in tuple(vars().values()):
    if isinstance(_each, type) and issubclass(_each, HeadraceError):
        _each.__module__ = "headrace"
