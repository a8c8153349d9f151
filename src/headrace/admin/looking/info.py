"""Queues, topics, groups and their traffic as users see them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headrace.admin.place import Place, attempt, undamaged
from headrace.core.messages.message import Stream
from headrace.core.moving.seal import Seal, Stage
from headrace.core.records.record import moment
from headrace.core.records.traffic import TrafficRecord
from headrace.core.runtime.clock import SECOND
from headrace.core.topics.topic import GroupRecord, TopicRecord
from headrace.engine.streams import StreamRouter


class SealInfo(msgspec.Struct, frozen=True):
    """A store whose content moves to another store, `target`. Producers get an error that names it.

    `stage`: `draining` while running work ends, `moving` while everything is copied, then `moved`."""

    target: str
    stage: Stage

    @property
    def text(self) -> str:
        if self.stage == "moved":
            return f"sealed: everything was moved to {self.target}"
        return f"sealed: everything is being moved to {self.target} ({self.stage})"

    @property
    def remedy(self) -> str:
        if self.stage == "moved":
            return "give your processes the URL of that store"
        return "wait for headrace move, or run the same command again if it was interrupted"


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue and how many jobs are in each state.

    - `name`: its name
    - `queued`: jobs that could run now
    - `running`: jobs that workers hold
    - `scheduled`: jobs with a delay, before their first run
    - `retrying`: jobs that wait for a retry, or were put off by `Snooze`
    - `dead`: its dead letters
    - `paused`: its jobs are not started
    - `oldest`: since when the oldest of the queued jobs has been ready to run
    - `partitions`: how many parts it has
    """

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

    - `group`: its name
    - `lag`: events that no worker has begun to handle
    - `queued`: events of these that the group has drawn from the log already
    - `running`: events that workers hold
    - `retrying`: events that wait for a retry
    - `scheduled`: events with a delay that the group has drawn
    - `dead`: its dead letters
    - `position`: the number of the last event that it drew
    - `ordered`: events of one key are handled one at a time
    - `paused`: no events are given to it
    - `oldest`: when the first event that no worker has begun to handle was written
    - `seen`: when one of its members was last active
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
    """A topic and its groups.

    - `name`: its name
    - `length`: how many events it holds
    - `scheduled`: events that are written later
    - `first`: when the first event was written
    - `last`: when the last event was written
    - `retention`: how many seconds events are kept; None: for ever
    - `max_length`: how many events are kept at most; None: no limit
    - `strict`: events are kept until every group with a live member has drawn them
    - `groups`: its groups, each a `GroupInfo`
    - `partitions`: over how many parts new events are spread
    """

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


def seal_info(seal: Seal | None) -> SealInfo | None:
    return None if seal is None else SealInfo(seal.target, seal.stage)


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
