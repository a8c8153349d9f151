"""The part of the contract by which everything in a store moves to another store. Begin with `core/store.py`.

A store may lack this capability: what it holds then ends with its process.

**The source** is sealed in three stages (`core/moving/seal.py`). From the first one on every step that adds
something raises `StoreMoved`: appends, schedules, declarations, joins and pauses, also of processes that were
connected before. Nothing is claimed. Settlements, renewals and recoveries go on, so that running work ends.
The appends of relays (their producers begin with `OUTBOX`) are taken while the store drains.

The second stage sets the content aside: no other verb finds it any more, so that it cannot change. `export`
reads it in pages. The third stage deletes it.

**The target** takes each page in one step, and remembers in the same step how far it has come (`imported`).
So a page is taken once, however often the move is interrupted and begun again, and whatever workers of the
target have done with the messages since. Messages keep their id, order, lane, due time, expiry, state and
unique key; events keep their number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.messages.constraints import Constraints
from headrace.core.messages.message import Stream
from headrace.core.rules.layout import decode_layout
from headrace.core.schedules.schedule_record import ScheduleRecord
from headrace.core.topics.topic import LogEntry, Ordering, TopicRules

from .seal import Seal

#: The place before the first page of a stream, and the place after the last one.
START: Final = ""
END: Final = "end"

#: What one page may hold: items, and bytes of bodies (or a single message).
PAGE_ITEMS: Final = 500
PAGE_BYTES: Final = 1 << 20

WaitingStatus = Literal["queued", "parked", "scheduled", "retrying"]
EndedStatus = Literal["succeeded", "cancelled", "expired"]


class StoredStream(msgspec.Struct, frozen=True):
    """The settings of a stream. A group is paused until its last page: no event is drawn before."""

    lease_us: int | None = None
    paused: bool = False
    layout: bytes | None = None


class StoredTopic(msgspec.Struct, frozen=True):
    """A topic whose log begins with the event `first` and ends with the event `last`."""

    rules: TopicRules
    first: int = 1
    last: int = 0
    last_us: int = 0


class StoredGroup(msgspec.Struct, frozen=True):
    """The position of a group. `again`: up to this number it may meet events that it has drawn before."""

    position: int
    seen_us: int
    ordering: Ordering = Ordering()
    again: int = 0


class StoredDeferredKey(msgspec.Struct, frozen=True):
    """A deferred key of an ordered group: see `core/topics/deferred_keys.py`."""

    key: str
    number: int
    passed: int
    drawable: bool


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """A message that waits, is dead or has an end record. State and failure are encoded.

    `at_us`: since when it is ready, when it is due, when it died or ended. `lane`, of a queued message: 1
    suspect, 2 returned, 3 to 5 its priority. `key` is the unique key of a job, or the key of an event, and
    `holds_key` says whether the message holds it until it is released. `handed_out`: a worker had it.
    `number` and `written_us`: the event in the log of the topic; 0: not known. `order_key` is the key of an
    ordered job, and `holds_order` says whether the job holds it.
    """

    id: str
    task: str
    status: WaitingStatus | EndedStatus | Literal["dead"]
    at_us: int
    body: bytes | None = None
    lane: int = 4
    priority: int = 1
    child: bool = False
    expires_us: int = 0
    state: bytes | None = None
    key: str | None = None
    until: str | None = None
    holds_key: bool = False
    handed_out: bool = False
    number: int = 0
    written_us: int = 0
    reason: str | None = None
    failure: bytes | None = None
    note: str | None = None
    result: bytes | None = None
    kept_until_us: int = 0
    constraints: Constraints | None = None
    order_key: str = ""
    holds_order: bool = False

    @property
    def over(self) -> bool:
        """Whether only an end record is left."""
        return self.status in ("succeeded", "cancelled", "expired")


class StoredKey(msgspec.Struct, frozen=True):
    """A unique key that is held until a time, whatever becomes of its message."""

    key: str
    id: str
    until_us: int


class StoredPause(msgspec.Struct, frozen=True):
    """The last item of a group: whether it is paused."""

    paused: bool


Item = (
    StoredStream
    | StoredTopic
    | StoredGroup
    | StoredDeferredKey
    | StoredMessage
    | StoredKey
    | StoredPause
    | LogEntry
    | ScheduleRecord
)


class StoredPage(msgspec.Struct, frozen=True):
    """Some items of a stream, in order. `after` is the place where they begin, `next` where the next ones
    begin."""

    items: tuple[Item, ...]
    after: str
    next: str

    @property
    def count(self) -> int:
        """How many messages and events it has that the counts of the source show, too."""
        messages = [item for item in self.items if isinstance(item, StoredMessage) and not item.over]
        return len(messages) + sum([isinstance(item, LogEntry) for item in self.items])


class SetAside(msgspec.Struct, frozen=True):
    """A stream that was set aside, and how many messages and events it holds, counted one by one."""

    stream: Stream
    queued: int = 0
    scheduled: int = 0
    retrying: int = 0
    dead: int = 0
    events: int = 0

    @property
    def count(self) -> int:
        return self.queued + self.scheduled + self.retrying + self.dead + self.events


class Imported(msgspec.Struct, frozen=True):
    """How far the import of a stream has come, and how many messages and events it has brought."""

    place: str = START
    count: int = 0


def conflict(stream: Stream, what: str) -> ConfigurationError:
    """The error for a page that does not fit into the target."""
    return ConfigurationError(
        f"{stream.kind} {stream.name!r} of the target {what}. Nothing is lost: the source keeps what was not"
        " moved. Remove what is in the way from the target, then run the move again"
    )


def takes_layout(stream: Stream, stored: bytes | None, arriving: bytes) -> bool:
    """Whether a stream of the target takes the layout from the other store. A layout with the same parts,
    which the target has made itself, stays. Another one is a conflict."""
    here, there = decode_layout(stored), decode_layout(arriving)
    if stored is None or here.whole:
        return True
    if here.shape != there.shape and not there.whole:
        raise conflict(stream, "is split in another way")
    return False


class Moving(ABC):
    """The verbs of a store that can be moved."""

    @abstractmethod
    async def seal(self) -> Seal | None:
        """The seal of the store; None: it is not sealed. Only reads."""

    @abstractmethod
    async def set_seal(self, seal: Seal | None) -> None:
        """Seal the store, bring its seal to the next stage, or remove it. Repeatable; may take several steps,
        of which a repeat does those that are left.

        When `draining` is set and the call has ended, no step adds anything any more, nor does a transaction
        that a user has open. `moving` is for a store in which nothing runs. `moved` deletes what was set
        aside. None is for a store that is `draining` or `moved`, and gives back the pauses from before."""

    @abstractmethod
    async def set_aside(self) -> list[SetAside]:
        """All streams that the stage `moving` has set aside, each topic before its groups."""

    @abstractmethod
    async def export(self, stream: Stream, place: str) -> StoredPage:
        """The page of a stream that was set aside, from a place on. Without schedules that cannot be read."""

    @abstractmethod
    async def import_page(self, stream: Stream, page: StoredPage, *, move: str, origin: Stream) -> None:
        """Take a page of the stream `origin` of another store, in one step. Nothing happens when `imported`
        is not at the place `page.after`: then the page was taken before.

        Raises `ConfigurationError`, and takes nothing, when the stream has a message of the same id, when
        another message holds a unique key, when the topic has events already, or when the stream has another
        layout. A schedule, an end record and a key with a time that are there already stay as they are."""

    @abstractmethod
    async def imported(self, origins: Sequence[Stream], *, move: str) -> list[Imported]:
        """How far the import of each stream has come in this move."""
