"""Calls the task that a queue names as `on_dead`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Signature
from typing import Any

import msgspec

from headrace.core.errors import ConfigurationError, HeadraceError
from headrace.core.messages.outgoing import Outgoing
from headrace.engine.declared.queue import Queue
from headrace.engine.settling.death_calls import DeathReport, DeathTask
from headrace.jobs.task import Call, Task

#: What a declaration is tried with.
SAMPLE = DeathReport("id", "task", "queue", "exhausted", "error")

#: Makes the message of a call for an outbox.
MakeOutgoing = Callable[[Call[Any]], Outgoing]


def death_tasks(
    queues: Mapping[str, Queue],
    tasks: Mapping[str, Task[Any, Any]],
    signature_of: Callable[[str], Signature],
    outgoing_of: MakeOutgoing,
) -> dict[str, DeathTask]:
    """The tasks of `on_dead` by queue. An unknown task, or one that cannot be called, is an error."""
    found: dict[str, DeathTask] = {}
    for queue in queues.values():
        if queue.on_dead is None:
            continue
        task = tasks.get(queue.on_dead)
        if task is None:
            raise ConfigurationError(
                f"queue {queue.name!r} has on_dead={queue.on_dead!r}, and this app has no task of that name: "
                "import the module that declares it where the app is made, or correct the name"
            )
        by_name = _is_called_by_name(queue, task, signature_of(task.name))
        found[queue.name] = _tried(queue, DeathTask(task.name, _Caller(task, outgoing_of, by_name)))
    return found


class _Caller:
    """Makes the message of one call."""

    def __init__(self, task: Task[Any, Any], outgoing_of: MakeOutgoing, by_name: bool) -> None:
        self._task = task
        self._outgoing_of = outgoing_of
        self._by_name = by_name

    def __call__(self, death: DeathReport, id: str) -> Outgoing:
        task = self._task.with_(job_id=id)
        if self._by_name:
            return self._outgoing_of(task.call(**msgspec.structs.asdict(death)))
        return self._outgoing_of(task.call(*msgspec.structs.astuple(death)))


def _is_called_by_name(queue: Queue, task: Task[Any, Any], signature: Signature) -> bool:
    """Whether the task takes its arguments by their names; else by their order."""
    try:
        signature.bind(**msgspec.structs.asdict(SAMPLE))
    except TypeError:
        try:
            signature.bind(*msgspec.structs.astuple(SAMPLE))
        except TypeError:
            raise _wrong(queue, task.name, f"it takes {signature}") from None
        return False
    return True


def _tried(queue: Queue, task: DeathTask) -> DeathTask:
    try:
        task.call(SAMPLE, "on_dead")
    except HeadraceError as error:
        raise _wrong(queue, task.name, str(error)) from error
    return task


def _wrong(queue: Queue, task: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"on_dead={task!r} of queue {queue.name!r} cannot be called ({why}): it gets five texts, as in "
        "def report(id: str, task: str, queue: str, reason: str, error: str)"
    )
