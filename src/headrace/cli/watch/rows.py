"""What can be chosen and steered: queues, and groups of topics, a row each."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headrace.admin import GroupInfo, QueueInfo, TopicInfo, Traffic
from headrace.admin.place import Place
from headrace.cli.snapshot import Snapshot


class Row(msgspec.Struct, frozen=True):
    """A queue or a group, in the same numbers; a topic that no group reads has none."""

    place: Place
    traffic: Traffic
    waiting: int = 0
    running: int = 0
    scheduled: int = 0
    retrying: int = 0
    dead: int = 0
    paused: bool = False
    oldest: datetime | None = None

    @property
    def is_steerable(self) -> bool:
        return self.place.topic is None or self.place.group is not None


def rows_of(seen: Snapshot) -> list[Row]:
    """Queues first, then topics with their groups."""
    traffic = {(each.kind, each.name): each for each in seen.traffic}
    rows = [_of_queue(queue, traffic.get(("queue", queue.name))) for queue in seen.queues]
    for topic in seen.topics:
        rows += [
            _of_group(topic, group, traffic.get(("group", f"{topic.name}/{group.group}")))
            for group in topic.groups
        ]
        if not topic.groups:
            rows.append(Row(Place(None, topic.name), Traffic("topic", topic.name)))
    return rows


def _of_queue(queue: QueueInfo, traffic: Traffic | None) -> Row:
    return Row(
        Place(queue.name),
        traffic or Traffic("queue", queue.name),
        waiting=queue.queued,
        running=queue.running,
        scheduled=queue.scheduled,
        retrying=queue.retrying,
        dead=queue.dead,
        paused=queue.paused,
        oldest=queue.oldest,
    )


def _of_group(topic: TopicInfo, group: GroupInfo, traffic: Traffic | None) -> Row:
    return Row(
        Place(None, topic.name, group.group),
        traffic or Traffic("group", f"{topic.name}/{group.group}"),
        waiting=group.lag,
        running=group.running,
        scheduled=group.scheduled,
        retrying=group.retrying,
        dead=group.dead,
        paused=group.paused,
        oldest=group.oldest,
    )
