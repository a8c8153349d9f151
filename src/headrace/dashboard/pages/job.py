"""One job: what it carries, its life drawn to scale, and what can be done with it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request

from headrace.admin import Contents
from headrace.app import App
from headrace.core.clock import SECOND
from headrace.core.info import JobInfo
from headrace.core.record import JobStatus
from headrace.dashboard.site import Content
from headrace.dashboard.text import data

#: States from which a job can be run again or edited, and those from which it can be cancelled.
MOVABLE = (JobStatus.SCHEDULED, JobStatus.RETRYING, JobStatus.DEAD)
CANCELLABLE = (JobStatus.SCHEDULED, JobStatus.RETRYING, JobStatus.QUEUED, JobStatus.RUNNING)


class Moment(msgspec.Struct, frozen=True):
    """Something that happened, when, and at which part of the whole span (0 to 100)."""

    at: datetime
    what: str
    worker: str = ""
    text: str = ""
    place: float = 0.0


async def page(app: App, request: Request) -> Content:
    id, queue = request.path_params["id"], request.query_params.get("queue") or None
    info = await app.admin.job(id, queue=queue)
    if info is None:
        return Content("no_job.html", {"id": id}, "Unknown job", 404)
    contents = await app.admin.contents(id, queue=queue)
    return Content(
        "job.html",
        {
            "job": info,
            "contents": contents,
            "arguments": _arguments(contents),
            "timeline": timeline(info),
            "movable": info.status in MOVABLE,
            "cancellable": info.status in CANCELLABLE,
        },
        f"Job {id}",
    )


def _arguments(contents: Contents | None) -> dict[str, str]:
    if contents is None:
        return {"args": "", "kwargs": ""}
    return {"args": data(list(contents.args)), "kwargs": data(contents.kwargs)}


def timeline(job: JobInfo) -> list[Moment]:
    """What is kept of a job's life, in order, placed to scale."""
    moments = [
        *_known("enqueued", job.enqueued_at),
        *(
            Moment(datetime.fromtimestamp(each.at_us / SECOND, UTC), each.what, each.worker, each.text)
            for each in job.trail
        ),
        *_known("started", job.started_at, job.worker),
        *_known(str(job.status), job.ended_at),
        *_known("due", job.due_at),
    ]
    moments.sort(key=lambda each: each.at)
    return _placed(moments)


def _known(what: str, at: datetime | None, worker: str = "") -> list[Moment]:
    return [] if at is None else [Moment(at, what, worker)]


def _placed(moments: list[Moment]) -> list[Moment]:
    if not moments:
        return []
    first, last = moments[0].at, max(moments[-1].at, datetime.now(UTC))
    whole = (last - first).total_seconds() or 1.0

    def placed(each: Moment) -> Any:
        place = 100 * (each.at - first).total_seconds() / whole
        return msgspec.structs.replace(each, place=round(place, 2))

    return [placed(each) for each in moments]
