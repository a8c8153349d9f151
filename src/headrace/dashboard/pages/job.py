"""One job, or one event in the hands of a group: what it carries, its life, and what can be done with it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from headrace.admin import Contents
from headrace.app import App
from headrace.core.errors import HeadraceError
from headrace.core.info import JobInfo
from headrace.core.record import JobStatus
from headrace.dashboard.arguments import named
from headrace.dashboard.editing import Draft, editable, why_not
from headrace.dashboard.place import Place, place_in, place_of
from headrace.dashboard.site import Content
from headrace.dashboard.text import data
from headrace.dashboard.timeline import timeline

#: States from which a job can be run again or edited, and those from which it can be cancelled.
MOVABLE = (JobStatus.SCHEDULED, JobStatus.RETRYING, JobStatus.DEAD)
CANCELLABLE = (JobStatus.SCHEDULED, JobStatus.RETRYING, JobStatus.QUEUED, JobStatus.RUNNING)


async def page(app: App, request: Request) -> Content:
    get = request.query_params.get
    return await content(app, get("id", ""), place_in(get))


async def content(app: App, id: str, asked: Place, draft: Draft | None = None) -> Content:
    """The page of a job. With a `draft` its form is open, and keeps what somebody has written there."""
    info = await app.admin.job(id, **asked.options)
    if info is None:
        return Content("no_job.html", {"id": id}, "Unknown job", 404)
    place = place_of(info)
    contents = await app.admin.contents(id, **place.options)
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
            "movable": info.status in MOVABLE,
            "cancellable": info.status in CANCELLABLE,
            **_editing(info, contents, draft),
        },
        f"{'Event' if info.topic else 'Job'} {id}",
        200 if draft is None else 422,
        live=draft is None,
    )


def _arguments(app: App, info: JobInfo, contents: Contents | None) -> list[tuple[str, str]]:
    if contents is None or contents.event is not None:
        return []
    return [(str(name), data(value)) for name, value in named(app, info.task, contents)]


def _editing(info: JobInfo, contents: Contents | None, draft: Draft | None) -> dict[str, Any]:
    if contents is None or contents.event is not None or info.status not in MOVABLE:
        return {"edit": None, "no_edit": ""}
    hindrance = why_not(contents)
    if hindrance:
        return {"edit": None, "no_edit": hindrance}
    return {"edit": draft or Draft(editable(list(contents.args)), editable(contents.kwargs)), "no_edit": ""}


async def _result(app: App, info: JobInfo) -> str | None:
    """What it returned, where that is kept."""
    if info.status is not JobStatus.SUCCEEDED or info.topic is not None:
        return None
    try:
        return data(await app.job(info.id, queue=info.queue).result(timeout=1))
    except HeadraceError:  # forgotten just now, or wrapped by a codec that is not known here
        return None
