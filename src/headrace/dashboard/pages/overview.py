"""How things stand: what needs attention first, then queues, topics and workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from starlette.requests import Request

from headrace.admin import Traffic
from headrace.app import App
from headrace.dashboard.checkup import Checkup
from headrace.dashboard.concerns import concerns
from headrace.dashboard.site import Content

from .workers import shown_worker


async def page(app: App, request: Request) -> Content:
    checkup: Checkup = request.app.state.checkup
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
            "total": _total(traffic.values()),
            "concerns": concerns(queues, topics, workers, checkup.findings()),
            "groups": [group for topic in topics for group in topic.groups],
        },
        "Overview",
    )


def _total(traffic: Iterable[Traffic]) -> Traffic:
    """All queues and groups together."""
    each = list(traffic)
    return Traffic("all", "all", _sums([one.done for one in each]), _sums([one.failed for one in each]))


def _sums(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*rows, strict=True)))
