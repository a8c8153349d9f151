"""Decodes the jobs that were enqueued, and compares them with what a test expects."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from headrace.app import App
from headrace.core.encoding.encoding import encode_ordered
from headrace.core.errors import HeadraceError, InvalidPayload, UnknownTask
from headrace.core.messages.message import PRIORITIES, PriorityName, decode_envelope
from headrace.core.records.record import JobStatus, moment
from headrace.core.values.secret import Secret
from headrace.jobs.task import Call, Task

from .store import Appended, KitStore

#: The most jobs that a failed assertion lists.
LISTED = 30

_PRIORITIES: dict[int, PriorityName] = {number: name for name, number in PRIORITIES.items()}

_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxother = 200


class EnqueuedJob(msgspec.Struct, frozen=True):
    """A job as it was enqueued, with its arguments in the annotated types, and its current status.

    `arguments` has the arguments by parameter name, including defaults.
    """

    id: str
    task: str
    queue: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arguments: dict[str, Any]
    status: JobStatus
    priority: PriorityName = "normal"
    headers: dict[str, str] = {}
    enqueued_at: datetime | None = None
    due_at: datetime | None = None  # None: it could run at once

    def __str__(self) -> str:
        later = f", due at {self.due_at:%Y-%m-%d %H:%M:%S %Z}" if self.due_at else ""
        return f"{self.task}({listed(self.arguments)}) in queue {self.queue!r}, {self.status}{later}"


class Expected(msgspec.Struct, frozen=True):
    """The job that a test looks for. Arguments that are not named here may have any value."""

    task: str
    arguments: Mapping[str, Any]
    queue: str | None = None

    def fits(self, job: EnqueuedJob) -> bool:
        return (
            job.task == self.task
            and self.queue in (None, job.queue)
            and all(_same(wanted, job.arguments.get(name)) for name, wanted in self.arguments.items())
        )

    def __str__(self) -> str:
        arguments = f" with {listed(self.arguments)}" if self.arguments else ""
        return f"{self.task}{arguments}{f' in queue {self.queue!r}' if self.queue else ''}"


def expected(
    app: App,
    task: Task[Any, Any] | Call[Any] | str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    queue: str | None,
) -> Expected:
    """The job that a test describes; `UnknownTask` or `InvalidPayload` when it could never be enqueued."""
    if isinstance(task, Call):
        signature = _signature(app, task.task.name)
        return Expected(task.task.name, _bound(signature.bind, task.args, task.kwargs, True), queue)
    name = task if isinstance(task, str) else task.name
    signature = _signature(app, name)
    return Expected(name, _bound(signature.bind_partial, args, kwargs or {}, False), queue)


def enqueued_job(app: App, store: KitStore, appended: Appended) -> EnqueuedJob:
    """The job of a message that the store took."""
    message, queue = appended.message, appended.stream.name
    envelope = decode_envelope(message.body)
    args, kwargs = app._jobs.declarations.by_task[envelope.task].decode_bound(message.id, envelope)
    return EnqueuedJob(
        id=message.id,
        task=envelope.task,
        queue=queue,
        args=args,
        kwargs=kwargs,
        arguments=_bound(_signature(app, envelope.task).bind, args, kwargs, True),
        status=store.record(appended.stream, message.id).status,
        priority=_PRIORITIES[message.priority],
        headers=envelope.headers or {},
        enqueued_at=moment(envelope.enqueued_us),
        due_at=moment(appended.due_us),
    )


def list_of(jobs: Sequence[EnqueuedJob]) -> str:
    """The jobs, one line each, for the message of a failed assertion."""
    if not jobs:
        return "nothing was enqueued"
    lines = [f"\n  {job}" for job in jobs[:LISTED]]
    more = f"\n  … and {len(jobs) - LISTED} more" if len(jobs) > LISTED else ""
    return "enqueued were:" + "".join(lines) + more


def shortened(value: Any) -> str:
    """A value as a short text."""
    return _shortened.repr(value)


def listed(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_shortened.repr(value)}" for name, value in arguments.items())


def _signature(app: App, task: str) -> inspect.Signature:
    if task not in app.tasks:
        raise UnknownTask(f"no task called {task!r} is declared in this app")
    return inspect.signature(app.tasks[task])


def _bound(bind: Any, args: Sequence[Any], kwargs: Mapping[str, Any], defaults: bool) -> dict[str, Any]:
    try:
        bound: inspect.BoundArguments = bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidPayload(f"no job can have these arguments: {error}") from None
    if defaults:
        bound.apply_defaults()
    return bound.arguments


def _same(wanted: Any, actual: Any) -> bool:
    """Whether two values are equal, or are equal after sending: without annotation, plain data arrives."""
    if isinstance(actual, Secret) and not isinstance(wanted, Secret):
        actual = actual.reveal()
    return bool(wanted == actual) or _sent(wanted) == _sent(actual)


def _sent(value: Any) -> Any:
    """The plain data as which a value arrives."""
    try:
        return msgspec.msgpack.decode(encode_ordered(value), strict=False)
    except (HeadraceError, msgspec.DecodeError):
        return object()  # equal to nothing
