"""Runs tasks of Django in a worker: with their context, Django's signals, and connections to databases that
are closed when they are too old."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from traceback import format_exception
from typing import Any
from weakref import WeakKeyDictionary

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections
from django.utils import timezone

from headrace.app import App
from headrace.core.messages.directives import Snooze
from headrace.core.runtime.clock import datetime_of
from headrace.core.signals import WorkerStarted
from headrace.engine.running.run import Run, current_job
from headrace.jobs.options import TaskSettings

from .framework import (
    DjangoResult,
    DjangoTask,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    task_finished,
    task_started,
    to_django,
)
from .results import enqueued_at, plain_json, task_error
from .settings import BackendSettings

#: Entries of a job's trail that are runs.
_RUNS = frozenset({"failed", "timed out", "crashed"})

_known: WeakKeyDictionary[App, TaskRuns] = WeakKeyDictionary()


class TaskRuns:
    """Declares the tasks of Django in an app, and runs them."""

    def __init__(self, app: App, alias: str) -> None:
        self._app = app
        self._alias = alias
        self._worker = ""
        app.on(WorkerStarted)(self._remember_worker)

    @classmethod
    def of(cls, app: App, alias: str) -> TaskRuns:
        """The runs of an app. They are made once."""
        if app not in _known:
            _known[app] = cls(app, alias)
        return _known[app]

    def declare(self, tasks: Iterable[DjangoTask], settings: BackendSettings, sender: type) -> None:
        """Make a task of the app from each task that it does not have yet."""
        for task in tasks:
            name = task.module_path
            if name in self._app.tasks:
                continue
            options = TaskSettings(name=name, queue=task.queue_name, retry=settings.retry)
            options.update(settings.task_options.get(name, {}))
            self._app.task(**options)(self._function(task, sender))

    def _remember_worker(self, signal: WorkerStarted) -> None:
        self._worker = signal.worker

    def _function(self, task: DjangoTask, sender: type) -> Callable[..., Any]:
        """The function that a worker calls."""
        function: Callable[..., Any]
        if inspect.iscoroutinefunction(task.func):

            async def function(*args: Any, **kwargs: Any) -> Any:
                # Django's database calls of this job run in one thread, as those of a request do.
                async with ThreadSensitiveContext():
                    try:
                        return await self._run_async(task, sender, args, kwargs)
                    finally:
                        # In a task of its own, which knows nothing of an error of the job.
                        await asyncio.create_task(sync_to_async(connections.close_all)())

        else:

            def function(*args: Any, **kwargs: Any) -> Any:
                close_old_connections()
                try:
                    return self._run(task, sender, args, kwargs)
                finally:
                    close_old_connections()

        function.__name__, function.__qualname__ = task.func.__name__, task.func.__qualname__
        function.__module__, function.__doc__ = task.func.__module__, task.func.__doc__
        return function

    def _run(self, task: DjangoTask, sender: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._result(current_job(), task, args, kwargs)
        task_started.send_robust(sender, task_result=result)
        try:
            value = plain_json(task.func(*_context(task, result), *args, **kwargs))
        except (Exception, SystemExit) as error:
            if not isinstance(error, Snooze):
                _fail(result, error)
                task_finished.send_robust(sender, task_result=result)
            raise
        _succeed(result, value)
        task_finished.send_robust(sender, task_result=result)
        return value

    async def _run_async(
        self, task: DjangoTask, sender: type, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a coroutine. Receivers of signals run in the thread of the job: they may use the database."""
        result = self._result(current_job(), task, args, kwargs)
        await sync_to_async(task_started.send_robust)(sender, task_result=result)
        try:
            value = plain_json(await task.func(*_context(task, result), *args, **kwargs))
        except (Exception, SystemExit) as error:
            frames = error.__traceback__
            if not isinstance(error, Snooze):
                _fail(result, error)
                await sync_to_async(task_finished.send_robust)(sender, task_result=result)
            error.__traceback__ = frames  # that thread has added its own frames
            raise
        _succeed(result, value)
        await sync_to_async(task_finished.send_robust)(sender, task_result=result)
        return value

    def _result(
        self, run: Run, task: DjangoTask, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> DjangoResult:
        """The result of a task that is about to run, with its earlier runs."""
        now = timezone.now()
        state = run.claim.state
        earlier = [entry for entry in state.trail if entry.what in _RUNS]
        starts = [to_django(datetime_of(entry.began_us)) for entry in earlier if entry.began_us]
        workers = [""] * (run.attempt - 1 - len(earlier)) + [entry.worker for entry in earlier]
        result: DjangoResult = TaskResult(
            task=task,
            id=run.id,
            status=TaskResultStatus.RUNNING,
            enqueued_at=to_django(enqueued_at(run.id)),
            started_at=starts[0] if starts else now,
            last_attempted_at=now,
            finished_at=None,
            args=list(args),
            kwargs=kwargs,
            backend=self._alias,
            errors=[task_error(entry.text or entry.what) for entry in earlier],
            worker_ids=[*workers, self._worker],
        )
        return result


def _context(task: DjangoTask, result: DjangoResult) -> tuple[TaskContext, ...]:
    return (TaskContext(task_result=result),) if task.takes_context else ()


def _succeed(result: DjangoResult, value: Any) -> None:
    # A result is frozen for its users. The backends of Django change it in this way, too.
    object.__setattr__(result, "finished_at", timezone.now())
    object.__setattr__(result, "status", TaskResultStatus.SUCCESSFUL)
    object.__setattr__(result, "_return_value", value)


def _fail(result: DjangoResult, error: BaseException) -> None:
    kind = type(error)
    path, text = f"{kind.__module__}.{kind.__qualname__}", "".join(format_exception(error))
    object.__setattr__(result, "finished_at", timezone.now())
    object.__setattr__(result, "status", TaskResultStatus.FAILED)
    result.errors.append(TaskError(exception_class_path=path, traceback=text))
