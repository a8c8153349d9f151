"""What needs attention: who waits too long, who does not come after, who has gone quiet, what has died."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from headrace.admin import GroupInfo, QueueInfo, TopicInfo
from headrace.core.examination import Finding, Level
from headrace.core.record import WorkerInfo, moment
from headrace.core.times import span

from .place import Place
from .text import counted

#: Seconds: a job or an event that waits longer, and a worker that has not polled for so long, are shown.
OLD: Final = 60.0
QUIET: Final = 10.0

#: Events that a group may lag behind before that is pointed out.
LAG: Final = 10_000


class Concern(msgspec.Struct, frozen=True):
    """Something that needs attention, and where to look, if anywhere here."""

    text: str
    link: str
    level: str = "warn"


def concerns(
    queues: list[QueueInfo],
    topics: list[TopicInfo],
    workers: list[WorkerInfo],
    findings: list[Finding],
) -> list[Concern]:
    """The worst first; `findings` are the doctor's."""
    now = datetime.now(UTC)
    served = {name for worker in workers for name in worker.queues}
    found = [each for queue in queues for each in _of_queue(queue, served, now)]
    found += [each for topic in topics for group in topic.groups for each in _of_group(topic, group, now)]
    found += [_of_quiet(worker, now) for worker in workers if is_quiet(worker, now)]
    found += [_of_finding(finding) for finding in findings]
    return sorted(found, key=lambda concern: concern.level)


def is_quiet(worker: WorkerInfo, now: datetime) -> bool:
    """Whether it has room for work, and yet has not asked for any lately."""
    polled = moment(worker.polled_us)
    has_room = len(worker.running) < worker.concurrency
    return has_room and polled is not None and (now - polled).total_seconds() > QUIET


def _of_queue(queue: QueueInfo, served: set[str], now: datetime) -> list[Concern]:
    place = Place(queue.name)
    found = []
    if queue.queued and queue.paused:
        found.append(
            Concern(f"{queue.name} is paused with {counted(queue.queued, 'job')} waiting", place.link)
        )
    elif queue.queued and queue.name not in served:
        text = f"{queue.name} has {counted(queue.queued, 'job')} waiting and no worker"
        found.append(Concern(text, place.link, "bad"))
    elif _waits(queue.oldest, now) > OLD:
        text = (
            f"{queue.name} does not keep up: its oldest job has waited for {span(_waits(queue.oldest, now))}"
        )
        found.append(Concern(text, place.link))
    if queue.dead:
        found.append(Concern(f"{queue.dead:,} dead in {queue.name}", place.dead_link))
    return found


def _of_group(topic: TopicInfo, group: GroupInfo, now: datetime) -> list[Concern]:
    place = Place(None, topic.name, group.group)
    found = []
    if group.paused and group.lag:
        text = f"{group.group} of {topic.name} is paused with {counted(group.lag, 'event')} waiting"
        found.append(Concern(text, "/topics"))
    elif group.lag > LAG or (group.lag and _waits(group.oldest, now) > OLD):
        text = f"{group.group} lags {counted(group.lag, 'event')} behind {topic.name}"
        if group.oldest is not None:
            text += f", the oldest {span(_waits(group.oldest, now))} old"
        found.append(Concern(text, "/topics"))
    if group.dead:
        text = f"{group.dead:,} dead in {group.group} of {topic.name}"
        found.append(Concern(text, place.dead_link))
    return found


def _of_quiet(worker: WorkerInfo, now: datetime) -> Concern:
    polled = moment(worker.polled_us) or now
    text = f"worker {worker.consumer} has not asked for work for {span((now - polled).total_seconds())}"
    return Concern(text, "/workers")


def _of_finding(finding: Finding) -> Concern:
    text = f"{finding.name}: {finding.text}"
    if finding.remedy:
        text += f" ({finding.remedy})"
    return Concern(text, "", "bad" if finding.level is Level.FAIL else "warn")


def _waits(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else (now - since).total_seconds()
