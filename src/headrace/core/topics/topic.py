"""The part of the contract that keeps topics: a log of events, and groups that draw from it.

**The log.** `append` to a topic's stream writes messages at the end of its log and numbers them from 1
upwards, without a gap, for as long as the topic lives. A message that is due in the future waits beside the
log, is `scheduled`, and is written to its end by `promote`. A unique key (kind `elapsed`) makes an event that
is published twice a `duplicate`. Priorities, limits and the memory of ids are for queues: a topic has none.

**Groups.** A group's stream is a queue in every respect but one: nobody appends to it. It has a **position**,
the number of the last event that it has drawn, and `claim` draws from the log what it wants beyond what lies
in its lanes: the event becomes a message of the group, in the lane `normal`, with the same id, body, expiry
and key, and the position moves on, in one step. From then on it is the group's own: leases, retries, crashes,
hand-backs, dead letters, replays happen in the group's stream by the same verbs as in a queue's, and no other
group sees any of it. A store may draw earlier than it must, up to `DRAWN_AHEAD` events. An event that the
group already has (it is waiting, running or dead there) is passed over.

**Order.** In an ordered group only one event of a key is in the lanes or running; the others of that key are
**parked** when they are drawn, behind each other, and count as queued. Whatever ends the first (done, dead,
cancelled, expired) moves the next to its lane in the same step. A retry, a hand-back or a crash keeps the
key. A dead letter that is replayed takes the key again, or is parked behind those that wait for it. Events
without a key know no order.

A key that is stuck delays no other. Of a key at most `PARKED_OF_KEY` events are parked, and of all keys
together `PARKED_MOST`, but of each key always one. From the next event on the key is **deferred**: drawing
goes on past its events, and the store remembers the number of the first of them and how many there are. When
fewer than `HUNGRY_BELOW` are parked, events of the key are drawn from that number on, up to the same bounds
or to `PARKED_AGAIN`, and other deferred keys are drawn on the way. All this holds also when the group is
ordered no more. A key that has caught up with the position is no longer deferred.
What was passed over so is part of the lag, and is held in the log like what is behind the position. With
`KEYS_DEFERRED_MOST` deferred keys the group is **stalled**: nothing but these is drawn until one has caught
up.

A group is ordered while a live member asks for it: one that joined with `ordered=True` and was seen, by
`join` or `keep_topics`, within `ORDER_HELD_FOR`. A member that joins without order changes nothing until
then; after that its next `join` or `keep_topics` ends the order. What holds counts for what is drawn from
then on. A group of which members of both kinds live is **disputed**, and `keep_topics` says so to both.
Without members it stays as it is. A store knows what a process wants by its last `join`, also when the group
is lost and comes back.

**Retention.** An event may go when it is older than the topic's age or further from the end than its length
allows. In a strict topic it stays, even so, until every live group has drawn it; live is a group of which a
member was seen within `LIVE_FOR`. `keep_topics` trims, and `append` does a little of it too, so that a topic
that nobody reads does not grow for ever. What a group has drawn is its own and not touched. A group whose
position was trimmed away goes on with the first event that is left.

**Removed groups** are remembered as such, so that a worker which still claims for one gets nothing; `join`
makes the group anew. A group that the store has lost in another way (somebody emptied it) comes back with the
next `claim` or `keep_topics` of a member, from the beginning of what is there: rather twice than never.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.records.record import Counts
from headrace.core.runtime.clock import SECOND

#: How many events a store may draw for a group before anybody has claimed them, at most.
DRAWN_AHEAD: Final = 1000

#: How many events of one key are parked at most, of all keys together, and at any rate of a deferred key.
PARKED_OF_KEY: Final = 100
PARKED_MOST: Final = 1000
PARKED_AGAIN: Final = 10

#: When fewer of a deferred key are parked, more of it is drawn.
HUNGRY_BELOW: Final = PARKED_AGAIN // 2

#: So many deferred keys stop a group from drawing more.
KEYS_DEFERRED_MOST: Final = 1000

#: Microseconds for which a member counts as live, as far as the order of its group is concerned.
ORDER_HELD_FOR: Final = 60 * SECOND

#: Microseconds for which a group holds its topic after a member was last seen.
LIVE_FOR: Final = 24 * 3600 * SECOND

#: How many more events than it adds an append may trim.
TRIMMED_BESIDE: Final = 100


class Start(msgspec.Struct, frozen=True):
    """Where a group or a reader begins: with what comes from now on, with the first event that is left, with
    the event of that id, or with the first that was written at that time (microseconds) or later."""

    at: Literal["new", "beginning", "event", "time"] = "new"
    event: str = ""
    time_us: int = 0


NEW: Final = Start("new")
BEGINNING: Final = Start("beginning")


class TopicRules(msgspec.Struct, frozen=True):
    """What belongs to a topic and holds for all who use it. 0 and None: no bound by age, by length."""

    retention_us: int = 7 * 24 * 3600 * SECOND
    max_length: int | None = None
    strict: bool = True


class LogEntry(msgspec.Struct, frozen=True):
    """An event as it lies in a log; `at_us` is when it was written there."""

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
    """What `keep_topics` did. `more`: there is more to trim, call again. `holding`: live groups for whose
    sake events are kept that could go. `passed`: groups without a living member that hold up nothing any
    more. `disputed`: those of the named groups whose live members disagree about their order. `stalled`:
    those that have too many deferred keys to draw further."""

    trimmed: int = 0
    more: bool = False
    holding: tuple[Stream, ...] = ()
    passed: tuple[Stream, ...] = ()
    disputed: tuple[Stream, ...] = ()
    stalled: tuple[Stream, ...] = ()


class Ordering(msgspec.Struct, frozen=True):
    """Whether a group is ordered, and when a member that wants so, and one that does not, was last seen."""

    ordered: bool = False
    wanted_us: int = 0
    unwanted_us: int = 0

    def seen(self, now_us: int, *, wants_order: bool) -> Ordering:
        """After a member was seen."""
        if wants_order:
            return Ordering(True, now_us, self.unwanted_us)
        return Ordering(self.ordered and _is_recent(self.wanted_us, now_us), self.wanted_us, now_us)

    def is_disputed(self, now_us: int) -> bool:
        return self.ordered and _is_recent(self.wanted_us, now_us) and _is_recent(self.unwanted_us, now_us)


def may_park(of_key: int, in_all: int, *, deferred: bool = False) -> bool:
    """Whether one more event of a key may be parked, beside so many of that key and in all."""
    always = PARKED_AGAIN if deferred else 1
    return of_key < always or (of_key < PARKED_OF_KEY and in_all < PARKED_MOST)


def _is_recent(time_us: int, now_us: int) -> bool:
    return time_us + ORDER_HELD_FOR > now_us


class GroupRecord(msgspec.Struct, frozen=True):
    """A group as a store knows it. `counts` are of what it has drawn; `lag` is what it has not. In a topic
    with parts `position` is the sum over them, and tells no more than how many.

    `oldest_us` is when the oldest event that nobody has begun to handle was written; 0: there is none.
    """

    stream: Stream
    position: int
    lag: int
    counts: Counts
    oldest_us: int = 0
    seen_us: int = 0
    ordered: bool = False


class TopicRecord(msgspec.Struct, frozen=True):
    """A topic as a store knows it. `first` and `last` are numbers of events: `last - first + 1` are there. Of
    a topic that is split they are sums over its parts, and tell no more than how many."""

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
    """The verbs that only topics and groups have. All others serve them as they serve queues."""

    @abstractmethod
    async def declare_topic(self, topic: Stream, rules: TopicRules) -> None:
        """Make the topic known and store its rules; those given last count. Repeatable."""

    @abstractmethod
    async def join(self, group: Stream, start: Start, *, ordered: bool = False) -> bool:
        """Make the group exist, and its topic; True when it is new. One that exists keeps its position.

        Whether it is ordered from then on is decided as said above. A `start` at an event that the log does
        not hold raises `UnknownEvent`. Repeatable.
        """

    @abstractmethod
    async def read(
        self, topic: Stream, after: int | Start, *, consumer: str, limit: int, wait: float
    ) -> Reading:
        """At most `limit` events of the log behind a position, or from a start, in order; none after `wait`
        seconds, or sooner when `wake` was called for this consumer. Nobody's position changes."""

    @abstractmethod
    async def keep_topics(self, groups: Sequence[Stream], *, limit: int) -> KeptTopics:
        """Note that these groups have a living member, which wants the order that this process joined with.
        Trim their topics, at most `limit` events of each. A topic that is named itself is trimmed as well."""

    @abstractmethod
    async def topics(self, names: Sequence[str] | None = None) -> list[TopicRecord]:
        """These topics, or all, by name, with their groups by name; those that do not exist are left out."""

    @abstractmethod
    async def reset(self, group: Stream, start: Start) -> bool:
        """Move the position of a group, back or forth; False: there is no such group. `UnknownEvent` as for
        `join`.

        What it has drawn stays with it, waiting, running or dead, and is passed over when it is met again.
        But in an ordered group the newest event of a key must be the last one also when old ones come again.
        So of events with a key that lie behind the new position, those that were never handed out are drawn
        anew, in their turn. Others that wait or run keep their key until they have ended, are handled again
        when their turn comes, and defer their key until then. A store may carry this out in several steps;
        nothing is drawn in between.
        """
