"""Workers, and the jobs that each is running."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from starlette.requests import Request

from headrace.app import App
from headrace.core.records.record import WorkerInfo, moment
from headrace.dashboard.site import Content


class ShownWorker(msgspec.Struct, frozen=True):
    """A worker with its times as datetimes."""

    info: WorkerInfo
    started: datetime | None
    polled: datetime | None
    quiet: bool

    @property
    def load(self) -> int:
        return round(100 * len(self.info.running) / max(1, self.info.concurrency))


def shown_worker(worker: WorkerInfo) -> ShownWorker:
    quiet = worker.is_quiet(datetime.now(UTC))
    return ShownWorker(worker, moment(worker.started_us), moment(worker.polled_us), quiet)


async def page(app: App, request: Request) -> Content:
    workers = sorted(await app.admin.workers(), key=lambda each: each.consumer)
    paused = {queue.name for queue in await app.admin.queues() if queue.paused}
    return Content(
        "workers.html",
        {"workers": [shown_worker(each) for each in workers], "moment": moment, "paused": paused},
        "Workers",
    )
