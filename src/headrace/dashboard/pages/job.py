"""One job, or one event of a group: its contents, its timeline, and what a user can do with it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from headrace.admin import Contents
from headrace.admin.looking.contents import named_arguments
from headrace.admin.place import Place, place_of
from headrace.app import App
from headrace.core.errors import HeadraceError, PayloadError
from headrace.core.limits.paused_tasks import PAUSED
from headrace.core.records.job_info import JobInfo
from headrace.core.records.record import JobStatus
from headrace.dashboard.links import place_in
from headrace.dashboard.site import Content
from headrace.dashboard.text import data

from .editing import ArgumentsForm, editable, why_not_editable
from .limits import paused_tasks
from .timeline import timeline

#: States in which a job can be retried or edited, and states in which it can be cancelled.
MOVABLE = (JobStatus.SCHEDULED, JobStatus.RETRYING, JobStatus.DEAD)
CANCELLABLE = (JobStatus.SCHEDULED, JobStatus.RETRYING, JobStatus.QUEUED, JobStatus.RUNNING)


async def page(app: App, request: Request) -> Content:
    get = request.query_params.get
    return await content(app, get("id", ""), place_in(get))


async def content(app: App, id: str, asked: Place, form: ArgumentsForm | None = None) -> Content:
    """The page of a job. With a `form` the form is open, and keeps what the user has written."""
    info = await app.admin.job(id, **asked.options)
    if info is None:
        return Content("unknown_job.html", {"id": id}, "Unknown job", 404)
    place = place_of(info)
    contents = await app.admin.contents(id, **place.options)
    task_paused = info.topic is None and info.task in await paused_tasks(app)
    return Content(
        "job.html",
        {
            "job": info,
            "place": place,
            "contents": contents,
            "event": contents.event if contents else None,
            "arguments": _arguments(app, info, contents),
            "result": await _result(app, info),
            "timeline": timeline(info),
            "task_paused": task_paused,
            "wait_reasons": await _wait_reasons(app, info, task_paused=task_paused),
            "movable": info.status in MOVABLE,
            "cancellable": info.status in CANCELLABLE,
            **_editing(info, contents, form),
        },
        f"{'Event' if info.topic else 'Job'} {id}",
        200 if form is None else 422,
        live=form is None,
    )


async def _wait_reasons(app: App, info: JobInfo, *, task_paused: bool) -> list[str]:
    """Why a queued job waits, besides what the store says of it."""
    if info.status is not JobStatus.QUEUED or info.topic is not None:
        return []
    reasons = []
    if any(queue.paused for queue in await app.admin.queues() if queue.name == info.queue):
        reasons.append("its queue, which is paused")
    if task_paused and not info.waiting_for.startswith(PAUSED):
        reasons.append("its task, which is paused")
    task = app.tasks.get(info.task)
    if not reasons and not info.waiting_for and task is not None and task.options.tenant_by is not None:
        reasons.append("the turn of its tenant")
    return reasons


def _arguments(app: App, info: JobInfo, contents: Contents | None) -> list[tuple[str, str]]:
    if contents is None or contents.event is not None:
        return []
    return [(str(name), data(value)) for name, value in named_arguments(contents, app.tasks.get(info.task))]


def _editing(info: JobInfo, contents: Contents | None, form: ArgumentsForm | None) -> dict[str, Any]:
    if contents is None or contents.event is not None or info.status not in MOVABLE:
        return {"edit": None, "no_edit": ""}
    reason = why_not_editable(contents)
    if reason:
        return {"edit": None, "no_edit": reason}
    stored = ArgumentsForm(editable(list(contents.args)), editable(contents.kwargs))
    return {"edit": form or stored, "no_edit": ""}


async def _result(app: App, info: JobInfo) -> str | None:
    """The result, if it is kept."""
    if info.status is not JobStatus.SUCCEEDED or info.topic is not None:
        return None
    try:
        return data(await app.job(info.id, queue=info.queue).result(timeout=1))
    except PayloadError as error:  # made by a codec or a key that this app does not have
        return f"It cannot be read: {error}"
    except HeadraceError:  # it has just expired
        return None
