"""Queues, topics, groups and their traffic as users see them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.messages.message import Stream
from headrace.core.records.record import moment
from headrace.core.records.traffic import TrafficRecord
from headrace.core.runtime.clock import SECOND
from headrace.core.topics.topic import GroupRecord, TopicRecord
from headrace.engine.streams import StreamRouter

from .place import Place, attempt, undamaged


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue and how many jobs are in each state. Jobs are spread over `partitions` parts."""

    name: str
    queued: int = 0
    running: int = 0
    scheduled: int = 0
    retrying: int = 0
    dead: int = 0
    paused: bool = False
    oldest: datetime | None = None
    partitions: int = 1


class GroupInfo(msgspec.Struct, frozen=True):
    """A group of a topic, and how far it is behind.

    `lag`: events that no worker has begun to handle. `oldest`: when the first of them was written. Of these
    events the group has already drawn `queued` from the log. `position` is the number of the last event that
    it drew. `seen`: when one of its members was last active.
    """

    group: str
    lag: int = 0
    queued: int = 0
    running: int = 0
    retrying: int = 0
    scheduled: int = 0
    dead: int = 0
    position: int = 0
    ordered: bool = False
    paused: bool = False
    oldest: datetime | None = None
    seen: datetime | None = None


class TopicInfo(msgspec.Struct, frozen=True):
    """A topic and its groups. It holds `length` events, written from `first` to `last`. `scheduled` events
    are written later. Events are kept for `retention` seconds (None: for ever), and at most `max_length` of
    them. A `strict` topic keeps them until every group with a living member has drawn them. New events are
    spread over `partitions` parts."""

    name: str
    length: int = 0
    scheduled: int = 0
    first: datetime | None = None
    last: datetime | None = None
    retention: float | None = None
    max_length: int | None = None
    strict: bool = True
    groups: tuple[GroupInfo, ...] = ()
    partitions: int = 1


class Traffic(msgspec.Struct, frozen=True):
    """How many jobs of a queue, or events of a group (`orders/billing`), succeeded, failed and died in each
    of the last minutes, the latest last. A failure that is retried counts as a failure."""

    kind: str
    name: str
    done: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()


async def all_queues(store: StreamRouter) -> list[QueueInfo]:
    """Every queue of the store that is not damaged, by name."""
    queues = [each for each in await Place().streams(store) if each.kind == "queue"]
    return undamaged([await attempt(_queue_info(store, each)) for each in queues])


async def _queue_info(store: StreamRouter, stream: Stream) -> QueueInfo:
    layout, counts = await store.layout(stream), await store.counts(stream)
    return QueueInfo(
        name=stream.name,
        queued=counts.queued,
        running=counts.running,
        scheduled=counts.scheduled,
        retrying=counts.retrying,
        dead=counts.dead,
        paused=counts.paused,
        oldest=moment(counts.oldest_us),
        partitions=layout.current.parts,
    )


def topic_info(record: TopicRecord) -> TopicInfo:
    rules = record.rules
    return TopicInfo(
        name=record.stream.topic,
        length=record.length,
        scheduled=record.scheduled,
        first=moment(record.first_us) if record.length else None,
        last=moment(record.last_us) if record.length else None,
        retention=rules.retention_us / SECOND or None,
        max_length=rules.max_length,
        strict=rules.strict,
        groups=tuple(map(_group_info, record.groups)),
        partitions=record.parts,
    )


def traffic_of(record: TrafficRecord) -> Traffic:
    return Traffic(record.stream.kind, record.stream.name, record.done, record.failed, record.dead)


def no_such_group(topic: str, group: str) -> ConfigurationError:
    return ConfigurationError(f"topic {topic!r} has no group {group!r}")


def _group_info(record: GroupRecord) -> GroupInfo:
    counts = record.counts
    return GroupInfo(
        group=record.stream.group,
        # A store may draw ahead. An event that is drawn and not begun still counts as lag.
        lag=record.lag + counts.queued,
        queued=counts.queued,
        running=counts.running,
        retrying=counts.retrying,
        scheduled=counts.scheduled,
        dead=counts.dead,
        position=record.position,
        ordered=record.ordered,
        paused=counts.paused,
        oldest=moment(record.oldest_us),
        seen=moment(record.seen_us),
    )
