"""The task backend: Django's tasks are jobs of an app."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from django.apps import apps
from django.core.checks import CheckMessage
from django.core.checks import Warning as CheckWarning
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from headrace.app import App
from headrace.core.errors import ConfigurationError
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import PriorityName
from headrace.jobs.options import CallOverrides
from headrace.jobs.remote import RemoteTask
from headrace.jobs.task import Call

from .framework import (
    BaseTaskBackend,
    DjangoResult,
    DjangoTask,
    TaskResultDoesNotExist,
    task_backends,
    task_enqueued,
    to_django,
    to_headrace,
)
from .results import enqueued_at, kept_in_headers, new_result, plain_json, result_of
from .runs import TaskRuns
from .settings import app_of, backend_settings

#: From this priority on a job is high, and up to its negative it is low. Each has a third of -100 to 100.
HIGH_FROM: Final = 34

#: The tasks that this process knows, by the dotted path of their function. Each backend fills it. A job names
#: its task by this path, and no path of a job is ever imported.
known_tasks: dict[str, DjangoTask] = {}


class Backend(BaseTaskBackend):  # type: ignore[misc]
    """Runs the tasks of Django as headrace jobs: `TASKS = {"default": {"BACKEND": "headrace.django.Backend",
    "OPTIONS": {"url": "redis://localhost"}}}`.

    The options are those of `App`, and:

    - `app`: in place of them, the dotted path of an `App` of yours
    - `enqueue`: when a job is stored: `"now"` (the default), `"on_commit"` (after the commit of the
      transaction) or `"in_transaction"` (as a part of the transaction)
    - `database`: the alias of the database whose transaction that is; `"default"`
    - `retry`: a `RetryPolicy` for all tasks. The default is none: a task that raises has failed, as with
      other backends of Django
    - `task_options`: options of single tasks, by their dotted paths: `{"shop.tasks.charge": {"timeout":
      30}}`; see `App.task`
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    alias: str
    queues: set[str]

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self.settings = backend_settings(params)
        self.app: App = app_of(alias, self.settings)
        self._remote: dict[str, RemoteTask] = {}

    def validate_task(self, task: DjangoTask) -> None:
        """Check a task. Django calls this for each task that is made, so workers know it from then on."""
        super().validate_task(task)
        _remember(task)

    def enqueue(self, task: DjangoTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> DjangoResult:
        """Store a job that runs the task."""
        self.validate_task(task)
        call = self._call(task, plain_json(list(args)), plain_json(dict(kwargs)))
        mode = self.settings.enqueue
        connection = None if mode == "now" else connections[self.settings.database]
        if connection is None or not in_transaction(connection):
            job = self.app.sync.enqueue(call)
        elif mode == "in_transaction":
            job = self.app.sync.enqueue(call, transaction=connection)
        else:
            return self._after_commit(task, call)
        return self._announced(new_result(task, job.id, call, self.alias))

    def get_result(self, result_id: str) -> DjangoResult:
        """What is known of a task that was enqueued."""
        info = self.app.sync.admin.job(str(result_id))
        task = None if info is None else known_tasks.get(info.task)
        if info is None or task is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(self.app, info, task, self.alias)

    def check(self, **_: object) -> Iterable[CheckMessage]:
        """Django's system checks."""
        if not apps.is_installed("headrace.django"):
            yield CheckWarning(
                "headrace.django is not in INSTALLED_APPS.",
                hint="Add it: it finds the tasks of your apps, and brings `manage.py headrace`.",
                id="headrace.W001",
            )

    def _call(self, task: DjangoTask, args: list[Any], kwargs: dict[str, Any]) -> Call[Any]:
        """The call that is stored. The code of the task need not be declared in this process."""
        name = task.module_path
        remote = self._remote.get(name)
        if remote is None:
            remote = self._remote[name] = self.app.remote(name)
        options: CallOverrides = {"queue": task.queue_name, "priority": priority_of(task)}
        if task.run_after is not None:
            options["at"] = to_headrace(task.run_after)
        if headers := kept_in_headers(task):
            options["headers"] = headers
        return remote.with_(**options).call(*args, **kwargs)

    def _after_commit(self, task: DjangoTask, call: Call[Any]) -> DjangoResult:
        call = call.with_(job_id=new_id())
        result = new_result(task, str(call.options.job_id), call, self.alias, stored=False)
        transaction.on_commit(partial(self._store, call, result), using=self.settings.database)
        return result

    def _store(self, call: Call[Any], result: DjangoResult) -> None:
        self.app.sync.enqueue(call)
        object.__setattr__(result, "enqueued_at", to_django(enqueued_at(result.id)))
        self._announced(result)

    def _announced(self, result: DjangoResult) -> DjangoResult:
        task_enqueued.send(type(self), task_result=result)
        return result


def in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Whether a commit is still to come. Without autocommit one always is. It opens no connection."""
    if connection.in_atomic_block:
        return True
    opened = connection.connection is not None
    return not (connection.autocommit if opened else connection.settings_dict["AUTOCOMMIT"])


def _remember(task: DjangoTask) -> None:
    """Know a task from now on. A copy with other options, by `using`, is the same task."""
    known = known_tasks.get(task.module_path)
    if known is None or known.func is not task.func:
        known_tasks[task.module_path] = task


def priority_of(task: DjangoTask) -> PriorityName:
    """The priority of the job, by thirds of -100 to 100."""
    if task.priority >= HIGH_FROM:
        return "high"
    return "low" if task.priority <= -HIGH_FROM else "normal"


def get_app(alias: str = "default") -> App:
    """The app of a task backend, with every task that is known now: for schedules, `app.admin`, and workers
    in this process."""
    backend = task_backends[alias]
    if not isinstance(backend, Backend):
        raise ConfigurationError(f"the task backend {alias!r} is no headrace.django.Backend")
    TaskRuns.of(backend.app, alias).declare(known_tasks.values(), backend.settings, type(backend))
    return backend.app
