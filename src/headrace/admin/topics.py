"""Topics and their groups as users see them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headrace.core.clock import SECOND
from headrace.core.errors import ConfigurationError
from headrace.core.record import moment
from headrace.core.topics import GroupRecord, TopicRecord


class GroupInfo(msgspec.Struct, frozen=True):
    """A group of a topic, and how far it is behind.

    `lag`: events that nobody has begun to handle, and `oldest` is when the first of them was written. Of
    these, `queued` are in the group's hands already. `position` is the number of the last event that it has
    drawn from the log. `seen`: when one of its members was last there.
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
    """A topic and its groups. `length` events are there, written from `first` to `last`; `scheduled` ones are
    written later. They are kept for `retention` seconds (None: for ever), and at most `max_length` of them;
    where it is `strict`, until every group with a living member has drawn them. New events go to
    `partitions` parts."""

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


def no_such_group(topic: str, group: str) -> ConfigurationError:
    return ConfigurationError(f"topic {topic!r} has no group {group!r}")


def _group_info(record: GroupRecord) -> GroupInfo:
    counts = record.counts
    return GroupInfo(
        group=record.stream.group,
        # Stores draw ahead as they please; what was drawn and not begun lags behind all the same.
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
