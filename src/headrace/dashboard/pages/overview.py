"""The overview: warnings first, then queues, topics and workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from starlette.requests import Request

from headrace.admin import Traffic
from headrace.admin.looking.diagnosis import Problem, diagnose, workloads
from headrace.admin.looking.doctor import RecentFindings, one_line
from headrace.admin.place import place_of_stream
from headrace.app import App
from headrace.core.records.findings import Level
from headrace.dashboard.links import dead_link, place_link
from headrace.dashboard.site import Content

from .workers import shown_worker


class ShownWarning(msgspec.Struct, frozen=True):
    """A problem or a finding, as a line with a link. `link` is empty where no page shows more."""

    text: str
    link: str = ""
    level: Level = Level.WARN


async def page(app: App, request: Request) -> Content:
    store_findings: RecentFindings = request.app.state.store_findings
    queues = await app.admin.queues()
    topics = await app.admin.topics()
    workers = await app.admin.workers()
    outboxes = await app.admin.outboxes()
    traffic = {(each.kind, each.name): each for each in await app.admin.traffic()}
    return Content(
        "overview.html",
        {
            "queues": queues,
            "topics": topics,
            "workers": [shown_worker(each) for each in workers],
            "traffic": traffic,
            "total": _total(traffic.values()),
            "warnings": [
                *(ShownWarning(one_line(each), level=each.level) for each in store_findings.get()),
                *map(_problem_warning, diagnose(workloads(queues, topics), workers, outboxes)),
            ],
            "outboxes": outboxes,
            "groups": [group for topic in topics for group in topic.groups],
        },
        "Overview",
    )


def _problem_warning(problem: Problem) -> ShownWarning:
    if problem.stream is None:
        return ShownWarning(problem.text, "/workers")
    place = place_of_stream(problem.stream)
    if problem.check == "dead letters":
        return ShownWarning(problem.text, dead_link(place))
    return ShownWarning(problem.text, place_link(place) if place.topic is None else "/topics")


def _total(traffic: Iterable[Traffic]) -> Traffic:
    """All queues and groups together."""
    each = list(traffic)
    return Traffic("all", "all", _sums([one.done for one in each]), _sums([one.failed for one in each]))


def _sums(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*rows, strict=True)))
