"""The rows of topics and groups, and the records that are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.records.record import Counts
from headrace.core.store import CLAIM_BYTES
from headrace.core.topics.topic import GroupRecord, Ordering, TopicRecord, TopicRules
from headrace.core.values.bounds import LATEST_US

#: The most bytes of bodies that are read or drawn at once. A single event may be larger.
MOST_BYTES: Final = CLAIM_BYTES


# --- logs -------------------------------------------------------------------------------------------------


class LogRow(NamedTuple):
    """A topic's row at the time when it was read."""

    stream: int
    first: int
    last: int
    last_us: int
    retention_us: int
    max_length: int | None
    strict: bool
    sealed: bool = False

    @property
    def spare_by_length(self) -> int:
        """The number up to which the limit of length allows trimming."""
        return self.last - self.max_length if self.max_length is not None else 0


def columns_of(rules: TopicRules) -> tuple[int, int | None, bool]:
    return rules.retention_us, rules.max_length, rules.strict


class LogSpan(NamedTuple):
    """How much to read or draw at once: the number of the last event, and the bytes of all events."""

    end: int
    size: int


# --- groups -----------------------------------------------------------------------------------------------


class GroupRow(NamedTuple):
    stream: int
    topic: int
    position: int
    removed: bool
    ordered: bool
    wanted_us: int
    unwanted_us: int
    keyed: bool = True  # it may have messages with a key

    @property
    def ordering(self) -> Ordering:
        return Ordering(bool(self.ordered), self.wanted_us, self.unwanted_us)


class GroupProblems(NamedTuple):
    """Groups whose members disagree about their order, and groups that are stalled."""

    disputed: list[Stream]
    stalled: list[Stream]


class GroupPosition(NamedTuple):
    """What trimming must know of a group."""

    stream: Stream
    low_water: int
    seen_us: int


def positions_of(rows: Sequence[Sequence[Any]]) -> list[GroupPosition]:
    """The groups of a topic by name: `rows` have number, name, position and time of each."""
    ordered = sorted((name, position, seen_us) for _, name, position, seen_us in rows)
    return [GroupPosition(Stream("group", name), *columns) for name, *columns in ordered]


def behind_parked_us(last_us: int | None, now_us: int) -> int:
    """The time to give to the next parked message; `last_us`: the latest time of those that are parked. The
    times order parked messages, so the next one is later than all of these, even when the clock was set back.
    """
    # A damaged time may be the largest possible number.
    return now_us if last_us is None else max(now_us, min(last_us, LATEST_US) + 1)


# --- records ----------------------------------------------------------------------------------------------


def topic_record(row: Sequence[Any], groups: tuple[GroupRecord, ...]) -> TopicRecord:
    _, name, retention_us, max_length, strict, first, last, first_us, last_us, scheduled = row
    return TopicRecord(
        Stream("topic", name),
        TopicRules(retention_us, max_length, bool(strict)),
        first=first,
        last=last,
        first_us=first_us,
        last_us=last_us,
        scheduled=scheduled,
        groups=groups,
    )


def with_events(counts: Counts, queued: int, oldest_us: int) -> Counts:
    """The counts of a stream together with the events that are in the log alone."""
    oldest = min((time_us for time_us in (counts.oldest_us, oldest_us) if time_us), default=0)
    return msgspec.structs.replace(counts, queued=counts.queued + queued, oldest_us=oldest)
