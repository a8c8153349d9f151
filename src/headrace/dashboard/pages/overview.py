"""How things stand: what needs attention first, then queues, topics and workers."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from starlette.requests import Request

from headrace.admin import QueueInfo, TopicInfo, Traffic
from headrace.app import App
from headrace.core.record import WorkerInfo, moment
from headrace.dashboard.site import Content

#: Seconds: a job that waits longer, and a worker that has not polled for so long, are pointed out.
OLD = 60.0
QUIET = 10.0
#: Events that a group may lag behind before that is pointed out.
LAG = 10_000


class Concern(msgspec.Struct, frozen=True):
    """Something that needs attention, and where to look."""

    text: str
    link: str
    level: str = "warn"


async def page(app: App, request: Request) -> Content:
    queues = await app.admin.queues()
    topics = await app.admin.topics()
    workers = await app.admin.workers()
    traffic = {(each.kind, each.name): each for each in await app.admin.traffic()}
    return Content(
        "overview.html",
        {
            "queues": queues,
            "topics": topics,
            "workers": [shown_worker(each) for each in workers],
            "traffic": traffic,
            "total": _total(list(traffic.values())),
            "concerns": _concerns(queues, topics, workers),
        },
        "Overview",
    )


class ShownWorker(msgspec.Struct, frozen=True):
    """A worker with its times as moments."""

    info: WorkerInfo
    started: datetime | None
    polled: datetime | None
    quiet: bool

    @property
    def load(self) -> int:
        return round(100 * len(self.info.running) / max(1, self.info.concurrency))


def shown_worker(worker: WorkerInfo) -> ShownWorker:
    polled = moment(worker.polled_us)
    return ShownWorker(worker, moment(worker.started_us), polled, _is_quiet(polled))


def _is_quiet(polled: datetime | None) -> bool:
    return polled is not None and (datetime.now(UTC) - polled).total_seconds() > QUIET


def _total(traffic: list[Traffic]) -> Traffic:
    """All queues and groups together."""
    columns = zip(*(each.done for each in traffic), strict=True)
    failed = zip(*(each.failed for each in traffic), strict=True)
    return Traffic("all", "all", tuple(map(sum, columns)), tuple(map(sum, failed)))


def _concerns(queues: list[QueueInfo], topics: list[TopicInfo], workers: list[WorkerInfo]) -> list[Concern]:
    served = {queue for worker in workers for queue in worker.queues}
    found = [concern for queue in queues for concern in _of_queue(queue, served)]
    found += [concern for topic in topics for concern in _of_topic(topic)]
    found += [
        Concern(f"worker {worker.consumer} has not asked for work for a while", "/workers")
        for worker in workers
        if _is_quiet(moment(worker.polled_us))
    ]
    return sorted(found, key=lambda concern: concern.level)


def _of_queue(queue: QueueInfo, served: set[str]) -> list[Concern]:
    link = f"/queues/{queue.name}"
    concerns = []
    if queue.queued and queue.paused:
        concerns.append(Concern(f"{queue.name} is paused with {queue.queued:,} jobs waiting", link))
    elif queue.queued and queue.name not in served:
        concerns.append(Concern(f"{queue.name} has {queue.queued:,} jobs waiting and no worker", link, "bad"))
    elif queue.oldest and (datetime.now(UTC) - queue.oldest).total_seconds() > OLD:
        concerns.append(Concern(f"{queue.name} grows: its oldest job has waited for long", link))
    if queue.dead:
        concerns.append(Concern(f"{queue.dead:,} dead letters in {queue.name}", f"/dead?queue={queue.name}"))
    return concerns


def _of_topic(topic: TopicInfo) -> list[Concern]:
    concerns = []
    for group in topic.groups:
        if group.lag > LAG:
            text = f"{group.group} lags {group.lag:,} events behind {topic.name}"
            concerns.append(Concern(text, "/topics"))
        if group.dead:
            link = f"/dead?topic={topic.name}&group={group.group}"
            concerns.append(Concern(f"{group.dead:,} dead letters of {group.group} in {topic.name}", link))
    return concerns
