"""What headrace knows of a job, as Django's `TaskResult`."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from headrace.app import App
from headrace.core.errors import ResultNotKept
from headrace.core.messages.ids import made_us
from headrace.core.records.job_info import JobInfo
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import datetime_of
from headrace.jobs.task import Call

from .framework import (
    DEFAULT_TASK_PRIORITY,
    DjangoResult,
    DjangoTask,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    to_django,
)

#: Headers of a job. headrace has three priorities, and does not keep the time of a job that has begun.
PRIORITY: Final = "django-priority"
RUN_AFTER: Final = "django-run-after"

STATUS: Final[Mapping[JobStatus, TaskResultStatus]] = {
    JobStatus.SCHEDULED: TaskResultStatus.READY,
    JobStatus.QUEUED: TaskResultStatus.READY,
    JobStatus.RETRYING: TaskResultStatus.READY,
    JobStatus.RUNNING: TaskResultStatus.RUNNING,
    JobStatus.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    JobStatus.DEAD: TaskResultStatus.FAILED,
    JobStatus.CANCELLED: TaskResultStatus.FAILED,
    JobStatus.EXPIRED: TaskResultStatus.FAILED,
}

#: The errors of jobs that ended without an error of their own.
ENDED_BY: Final = {
    JobStatus.CANCELLED: ("headrace.JobCancelled", "the job was cancelled"),
    JobStatus.EXPIRED: ("headrace.JobExpired", "the job was not started before it expired"),
}

#: The class of an error that has none: a worker died, for example.
WITHOUT_CLASS: Final = "headrace.JobFailed"


def plain_json(value: Any) -> Any:
    """The value as JSON has it. A TypeError says what JSON cannot have. Subclasses of `str`, such as those of
    Django, become `str`."""
    return json.loads(json.dumps(normalize_json(value)))


def kept_in_headers(task: DjangoTask) -> dict[str, str]:
    """What headrace does not keep of a task by itself."""
    headers = {}
    if task.priority != DEFAULT_TASK_PRIORITY:
        headers[PRIORITY] = str(task.priority)
    if task.run_after is not None:
        headers[RUN_AFTER] = task.run_after.isoformat()
    return headers


def new_result(
    task: DjangoTask, id: str, call: Call[Any], alias: str, *, stored: bool = True
) -> DjangoResult:
    """The result of a task that was just enqueued, or is enqueued at the commit of the transaction."""
    result: DjangoResult = TaskResult(
        task=task,
        id=id,
        status=TaskResultStatus.READY,
        enqueued_at=to_django(enqueued_at(id)) if stored else None,
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=list(call.args),
        kwargs=dict(call.kwargs),
        backend=alias,
        errors=[],
        worker_ids=[],
    )
    return result


def enqueued_at(id: str) -> datetime | None:
    """When the job was enqueued, by its id: no question to the store is needed for it."""
    us = made_us(id)
    return datetime_of(us) if us else None


def result_of(app: App, info: JobInfo, task: DjangoTask, alias: str) -> DjangoResult:
    """The result of a job that the store knows."""
    first, last = attempted(info)
    result: DjangoResult = TaskResult(
        task=_as_enqueued(app, info, task, alias),
        id=info.id,
        status=STATUS[info.status],
        enqueued_at=to_django(enqueued_at(info.id) or info.enqueued_at),
        started_at=to_django(first),
        last_attempted_at=to_django(last),
        finished_at=to_django(info.ended_at),
        args=list(info.args),
        kwargs=info.kwargs,
        backend=alias,
        errors=list(errors_of(info)),
        worker_ids=workers_of(info),
    )
    if info.status is JobStatus.SUCCEEDED:
        object.__setattr__(result, "_return_value", _kept_value(app, info))
    return result


def attempted(info: JobInfo) -> tuple[datetime | None, datetime | None]:
    """When the first and the last run began, as far as this is kept."""
    starts = [run.started_at for run in info.runs if run.started_at is not None]
    return (starts[0], starts[-1]) if starts else (info.started_at, info.started_at)


def errors_of(info: JobInfo) -> Iterator[TaskError]:
    """An error for each run that failed. headrace keeps the traceback of the last one."""
    failed = [run.error for run in info.runs if run.error and run.error != info.status]
    for error in failed[:-1] if info.traceback or info.error_type else failed:
        yield task_error(error)
    if info.error_type:
        text = info.traceback or f"{info.error_type}: {info.error}\n"
        yield TaskError(exception_class_path=class_path(info.error_type), traceback=text)
    if info.status in ENDED_BY:
        path, text = ENDED_BY[info.status]
        yield TaskError(exception_class_path=path, traceback=text)


def task_error(line: str) -> TaskError:
    """The error of a run of which one line is kept."""
    return TaskError(exception_class_path=class_path(line.partition(":")[0]), traceback=line)


def class_path(name: str) -> str:
    """The dotted path of an error, by the name that headrace keeps: without the module for builtins and for
    its own."""
    if "." in name and all(part.isidentifier() for part in name.split(".")):
        return name
    if isinstance(getattr(builtins, name, None), type):
        return f"builtins.{name}"
    return WITHOUT_CLASS


def workers_of(info: JobInfo) -> list[str]:
    """The worker of each run. Of a job with many runs, the first ones are not kept: their worker is empty."""
    workers = [run.worker for run in info.runs]
    return [""] * (info.attempts - len(workers)) + workers


def _as_enqueued(app: App, info: JobInfo, task: DjangoTask, alias: str) -> DjangoTask:
    """The task with the options with which it was enqueued."""
    contents = app.sync.admin.contents(info.id, queue=info.queue)
    headers = {} if contents is None else contents.headers
    run_after = headers.get(RUN_AFTER)
    as_enqueued: DjangoTask = replace(
        task,  # type: ignore[type-var]
        backend=alias,
        queue_name=info.queue,
        priority=int(headers.get(PRIORITY, DEFAULT_TASK_PRIORITY)),
        run_after=None if run_after is None else datetime.fromisoformat(run_after),
    )
    return as_enqueued


def _kept_value(app: App, info: JobInfo) -> Any:
    """What the task returned. None also when it was too large to keep."""
    try:
        return app.job(info.id, queue=info.queue).sync.result(timeout=1)
    except ResultNotKept:
        return None
