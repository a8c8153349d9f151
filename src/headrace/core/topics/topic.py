"""The part of the contract that keeps topics: a log of events, and groups that draw from it.

**The log.** `append` to a topic's stream writes messages at the end of its log and numbers them from 1
upwards, without a gap, for as long as the topic lives. A message that is due in the future waits beside the
log, is `scheduled`, and is written to its end by `promote`. A unique key (kind `elapsed`) makes an event that
is published twice a `duplicate`. Priorities and the memory of ids are for queues: a topic has none.

Of a batch with a `limit`, events are refused (`full`) for which the log has no **room**: it may hold `limit`
events that not every live group has drawn. Without a live group, all events of the log count. What may be
trimmed is trimmed first. Events that are due later count once they are in the log.

**Groups.** The stream of a group is like a queue, except that nothing is appended to it. It has a
**position**, the number of the last event that it has drawn. When its lanes hold less than a `claim` wants,
the claim draws more from the log: the event becomes a message of the group, in the lane `normal`, with the
same id, body, expiry and key, and the position moves on, in one step. From then on it belongs to the group:
leases, retries, crashes, hand-backs, dead letters and replays happen in the group's stream by the same verbs
as in a queue, and no other group sees any of it. A store may draw earlier than it must, up to `DRAWN_AHEAD`
events. An event that the group already has (it is waiting, running or dead there) is passed over.

**Order.** In an ordered group only one event of a key is in the lanes or running; the others of that key are
**parked** when they are drawn, behind each other, and count as queued. The step that ends the first (done,
dead, cancelled, expired) also moves the next to its lane. A retry, a hand-back or a crash keeps the key. A
dead letter that is replayed takes the key again, or is parked behind the events that wait for it. Events
without a key have no order.

A key that is stuck delays no other. At most `PARKED_OF_KEY` events of a key are parked, and `PARKED_MOST` of
all keys together, but always one of each key. From the next event on the key is **deferred**: drawing goes on
past its events, and the store remembers the number of the first of them and how many there are. When fewer
than `DRAWABLE_BELOW` are parked, events of the key are drawn from that number on, up to the same bounds or to
`PARKED_AGAIN`, and other deferred keys are drawn on the way. All this holds also when the group is no longer
ordered. A key that has caught up with the position is no longer deferred.
Events that were passed over in this way are part of the lag, and retention keeps them like the events that
are not drawn yet. With `KEYS_DEFERRED_MOST` deferred keys the group is **stalled**: only events of these keys
are drawn until one key has caught up.

A group is ordered while a live member asks for it: a member that joined with `ordered=True` and was seen, by
`join` or `keep_topics`, within `ORDER_HELD_FOR`. A member that joins without order changes nothing before
that time is over; after that its next `join` or `keep_topics` ends the order. A change holds for what is
drawn from then on. A group with live members of both kinds is **disputed**, and `keep_topics` reports that to
both. A group without members stays as it is. A store knows what a process wants by its last `join`, also when
the group is lost and comes back.

**Retention.** An event may be trimmed when it is older than the topic's age or further from the end than its
length allows. In a strict topic it stays nevertheless until every live group has drawn it; a group is live
when a member was seen within `LIVE_FOR`. `keep_topics` trims, and `append` trims a little too, so that a
topic without readers does not grow for ever. Events that a group has drawn belong to it and are not touched.
A group whose position was trimmed away goes on with the first event that is left.

**Removed groups** are remembered as removed, so that a worker which still claims for one gets nothing; `join`
makes the group anew. A group that the store has lost in another way (its data was deleted) comes back with
the next `claim` or `keep_topics` of a member, from the first event that is left: an event twice is better
than never.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from headrace.core.errors import UnknownEvent
from headrace.core.messages.message import Stream
from headrace.core.records.record import Counts
from headrace.core.runtime.clock import SECOND

#: The most events that a store may draw for a group before a worker claims them.
DRAWN_AHEAD: Final = 1000

#: The most events that are parked of one key, of all keys together, and of a deferred key in any case.
PARKED_OF_KEY: Final = 100
PARKED_MOST: Final = 1000
PARKED_AGAIN: Final = 10

#: When fewer events of a deferred key are parked, more of them are drawn.
DRAWABLE_BELOW: Final = PARKED_AGAIN // 2

#: With this many deferred keys a group is stalled.
KEYS_DEFERRED_MOST: Final = 1000

#: Microseconds for which a member counts as live, as far as the order of its group is concerned.
ORDER_HELD_FOR: Final = 60 * SECOND

#: Microseconds for which a group holds its topic after a member was last seen.
LIVE_FOR: Final = 24 * 3600 * SECOND

#: How many more events than it adds an append may trim.
TRIMMED_BESIDE: Final = 100


class Start(msgspec.Struct, frozen=True):
    """Where a group or a reader begins: with events from now on, with the first event that is left, with the
    event of that id, or with the first that was written at that time (microseconds) or later."""

    at: Literal["new", "beginning", "event", "time"] = "new"
    event: str = ""
    time_us: int = 0


NEW: Final = Start("new")
BEGINNING: Final = Start("beginning")


def unknown_event(id: str) -> UnknownEvent:
    """The error for a start at an event that the log does not hold."""
    return UnknownEvent(f"the topic holds no event {id!r}: it never did, or it was trimmed by now")


def position_in_nothing(after: int | Start) -> int:
    """The position after which reading begins in a topic that does not exist yet."""
    if not isinstance(after, Start):
        return after
    if after.at == "event":
        raise unknown_event(after.event)
    return 0


class TopicRules(msgspec.Struct, frozen=True):
    """The retention of a topic, the same for all processes that use it. 0: no bound by age. None: no bound by
    length."""

    retention_us: int = 7 * 24 * 3600 * SECOND
    max_length: int | None = None
    strict: bool = True


class LogEntry(msgspec.Struct, frozen=True):
    """An event in a log; `at_us` is when it was written there."""

    number: int
    id: str
    task: str
    body: bytes
    at_us: int
    expires_us: int = 0
    key: str = ""


class Reading(msgspec.Struct, frozen=True):
    """Events that were read, the position to go on after, and the store's clock when they were read."""

    entries: tuple[LogEntry, ...]
    position: int
    now_us: int = 0

    @property
    def begun_after(self) -> int:
        """The position of a reader that takes none of the events."""
        return self.entries[0].number - 1 if self.entries else self.position


class KeptTopics(msgspec.Struct, frozen=True):
    """What `keep_topics` did. `more`: there is more to trim, call again. `holding`: live groups that have not
    drawn events which could be trimmed otherwise. `passed`: groups without a live member, for which no events
    are kept any more. `disputed`: named groups whose live members disagree about their order. `stalled`:
    groups that have too many deferred keys to draw further."""

    trimmed: int = 0
    more: bool = False
    holding: tuple[Stream, ...] = ()
    passed: tuple[Stream, ...] = ()
    disputed: tuple[Stream, ...] = ()
    stalled: tuple[Stream, ...] = ()

    def __add__(self, other: KeptTopics) -> KeptTopics:
        return KeptTopics(
            self.trimmed + other.trimmed,
            self.more or other.more,
            self.holding + other.holding,
            self.passed + other.passed,
            self.disputed + other.disputed,
            self.stalled + other.stalled,
        )


class Ordering(msgspec.Struct, frozen=True):
    """Whether a group is ordered, and when members that want order, and others, were last seen."""

    ordered: bool = False
    wanted_us: int = 0
    unwanted_us: int = 0

    def seen(self, now_us: int, *, wants_order: bool) -> Ordering:
        """The value after a member was seen."""
        if wants_order:
            return Ordering(True, now_us, self.unwanted_us)
        return Ordering(self.ordered and _is_recent(self.wanted_us, now_us), self.wanted_us, now_us)

    def is_disputed(self, now_us: int) -> bool:
        return self.ordered and _is_recent(self.wanted_us, now_us) and _is_recent(self.unwanted_us, now_us)


def may_park(of_key: int, in_all: int, *, deferred: bool = False) -> bool:
    """Whether one more event may be parked when `of_key` of its key and `in_all` of all keys are."""
    always = PARKED_AGAIN if deferred else 1
    return of_key < always or (of_key < PARKED_OF_KEY and in_all < PARKED_MOST)


def _is_recent(time_us: int, now_us: int) -> bool:
    return time_us + ORDER_HELD_FOR > now_us


class GroupRecord(msgspec.Struct, frozen=True):
    """A group as a store knows it. `counts` are of events that it has drawn; `lag` is how many it has not. In
    a topic with parts `position` is the sum over the parts: a number of events, no place.

    `oldest_us` is when the oldest event that no handler has begun with was written; 0: there is none.
    """

    stream: Stream
    position: int
    lag: int
    counts: Counts
    oldest_us: int = 0
    seen_us: int = 0
    ordered: bool = False


class TopicRecord(msgspec.Struct, frozen=True):
    """A topic as a store knows it. `first` and `last` are numbers of events: `last - first + 1` are there. In
    a topic with parts they are sums over the parts, good only for that count."""

    stream: Stream
    rules: TopicRules
    first: int = 1
    last: int = 0
    first_us: int = 0
    last_us: int = 0
    scheduled: int = 0
    groups: tuple[GroupRecord, ...] = ()
    parts: int = 1  # that new events go to

    @property
    def length(self) -> int:
        return self.last - self.first + 1


class Topics(ABC):
    """The verbs that only topics and groups have. All other verbs treat them like queues."""

    @abstractmethod
    async def declare_topic(self, topic: Stream, rules: TopicRules) -> None:
        """Make the topic known and store its rules; the last call counts. Repeatable."""

    @abstractmethod
    async def join(self, group: Stream, start: Start, *, ordered: bool = False) -> bool:
        """Make the group exist, and its topic; True when the group is new. An existing group keeps its
        position.

        Whether it is ordered from then on: see *Order* above. A `start` at an event that the log does not
        hold raises `UnknownEvent`. Repeatable.
        """

    @abstractmethod
    async def read(
        self, topic: Stream, after: int | Start, *, consumer: str, limit: int, wait: float
    ) -> Reading:
        """At most `limit` events of the log after a position, or from a start, in order; none after `wait`
        seconds, or sooner when `wake` was called for this consumer. No position of a group changes."""

    @abstractmethod
    async def keep_topics(self, groups: Sequence[Stream], *, limit: int) -> KeptTopics:
        """Note that these groups have a live member, which wants the order that this process joined with.
        Trim their topics, at most `limit` events of each. `groups` may also name a topic, to trim it."""

    @abstractmethod
    async def topics(self, names: Sequence[str] | None = None) -> list[TopicRecord]:
        """These topics, or all, with their groups, both sorted by name; missing ones are left out."""

    @abstractmethod
    async def reset(self, group: Stream, start: Start) -> bool:
        """Move the position of a group, back or forth; False: there is no such group. `UnknownEvent` as for
        `join`.

        Events that it has drawn stay in the group, waiting, running or dead, and are passed over when the
        group meets them again. But in an ordered group the newest event of a key must be the last one also
        when old ones come again. So events with a key after the new position that were never handed out are
        drawn anew, in their turn. Others that wait or run keep their key until they have ended, are handled
        again when their turn comes, and defer their key until then. A store may carry this out in several
        steps; nothing is drawn in between.
        """
