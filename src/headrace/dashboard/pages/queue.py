"""The jobs of one queue, by state, with a search that says how far it looked."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request

from headrace.app import App
from headrace.core.info import JobInfo
from headrace.core.record import JobStatus, Page
from headrace.dashboard.site import Content

PAGE = 50

#: Jobs that one search looks at before it asks whether to go on.
SCAN = 5000
STEP = 500

STATES = ("queued", "running", "scheduled", "retrying", "dead", "succeeded", "cancelled", "expired")


async def page(app: App, request: Request) -> Content:
    name = request.path_params["queue"]
    state = request.query_params.get("state") or None
    task = request.query_params.get("task") or None
    search = request.query_params.get("search", "").strip()
    cursor = request.query_params.get("cursor") or None
    queue = next((each for each in await app.admin.queues() if each.name == name), None)
    found, looked = await _found(app, name, state, task, search, cursor)
    return Content(
        "queue.html",
        {
            "name": name,
            "queue": queue,
            "jobs": found.items,
            "cursor": found.cursor,
            "first": cursor is None,
            "state": state,
            "task": task or "",
            "search": search,
            "looked": looked,
            "states": STATES,
        },
        f"Queue {name}",
        404 if queue is None else 200,
    )


async def _found(
    app: App, queue: str, state: str | None, task: str | None, search: str, cursor: str | None
) -> tuple[Page[JobInfo], int]:
    """A page of jobs, and how many were looked at for it."""
    status = None if state is None else JobStatus(state) if state in STATES else None
    if not search:
        page = await app.admin.jobs(queue, state=status, task=task, cursor=cursor, limit=PAGE)
        return page, len(page)
    fits = _matcher(search)
    found: list[JobInfo] = []
    looked = 0
    while looked < SCAN and len(found) < PAGE:
        page = await app.admin.jobs(queue, state=status, task=task, cursor=cursor, limit=STEP)
        found += filter(fits, page)
        looked += len(page)
        cursor = page.cursor
        if cursor is None:
            break
    return Page(tuple(found), cursor), looked


def _matcher(search: str) -> Callable[[JobInfo], bool]:
    wanted = search.casefold()

    def fits(job: JobInfo) -> bool:
        texts = (job.id, job.task, job.error, job.error_type, job.worker, str(job.enqueued_at or ""))
        return any(wanted in text.casefold() for text in texts)

    return fits
