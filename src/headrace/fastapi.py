"""For FastAPI: what `headrace.starlette` has, and dependencies for the app and for the job that a path names.

from headrace.fastapi import HeadraceApp, HeadraceJob, lifespan

api = FastAPI(lifespan=lifespan(app))

@api.post("/reports")
async def order_report(jobs: HeadraceApp) -> dict[str, str]:
    job = await jobs.enqueue(render.call(7))
    return {"job": job.id}

@api.get("/reports/{job_id}")
async def show(job: HeadraceJob) -> dict[str, str]:
    return {"status": await job.status()}
"""

from __future__ import annotations

from typing import Annotated, Any

from headrace.app import App
from headrace.core.errors import ConfigurationError
from headrace.core.records.record import JobStatus
from headrace.jobs.handles.job import Job

try:
    from fastapi import Depends, HTTPException
    from fastapi.requests import HTTPConnection
except ModuleNotFoundError as error:
    if error.name != "fastapi":
        raise
    raise ConfigurationError("headrace.fastapi needs fastapi: pip install 'headrace[fastapi]'") from error

from headrace.starlette import STATE, InProcessWorker, JobEvents, dashboard, lifespan

__all__ = [
    "HeadraceApp",
    "HeadraceJob",
    "InProcessWorker",
    "JobEvents",
    "dashboard",
    "job_of_path",
    "lifespan",
    "site_app",
]


def site_app(connection: HTTPConnection) -> App:
    """The app of the site, as a dependency. A test gives another one with `dependency_overrides`."""
    app: App | None = getattr(connection.state, STATE, None)
    if app is None:
        raise ConfigurationError(
            "the site has no headrace app: make it with FastAPI(lifespan=headrace.fastapi.lifespan(app))"
        )
    return app


HeadraceApp = Annotated[App, Depends(site_app)]


async def job_of_path(job_id: str, app: HeadraceApp) -> Job[Any]:
    """The job whose id is `job_id` in the path, as a dependency. A job that the store does not know is a
    404."""
    info = await app.job(job_id).info()
    if info.status is JobStatus.UNKNOWN:
        raise HTTPException(404, "there is no such job")
    return app.job(job_id, queue=info.queue)


HeadraceJob = Annotated[Job[Any], Depends(job_of_path)]
