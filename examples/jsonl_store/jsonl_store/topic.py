"""A topic: its log, what is due later, and how long events stay."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import msgspec

from headrace.store import (
    LIVE_FOR,
    NORMAL,
    TRIMMED_BESIDE,
    Answer,
    Batch,
    JobStatus,
    KeptTopics,
    LogEntry,
    Message,
    Start,
    Stream,
    TopicRules,
    UnknownEvent,
    room_in_log,
)

from .entry import EndRecord, Entry
from .messages import Surroundings
from .stream import StreamState

if TYPE_CHECKING:
    from .group import GroupState


class Event(msgspec.Struct, frozen=True):
    number: int
    message: Message
    at_us: int
    expires_us: int

    @property
    def log_entry(self) -> LogEntry:
        message = self.message
        return LogEntry(
            self.number, message.id, message.task, message.body, self.at_us, self.expires_us, message.key
        )


class Log:
    """Events by number, without a gap, trimmed at the front."""

    def __init__(self) -> None:
        self.first = 1
        self.events: list[Event] = []

    @property
    def last(self) -> int:
        return self.first + len(self.events) - 1

    @property
    def first_us(self) -> int:
        return self.events[0].at_us if self.events else 0

    @property
    def last_us(self) -> int:
        return self.events[-1].at_us if self.events else 0

    def add(self, message: Message, expires_us: int, now_us: int) -> None:
        # Never before the one in front of it, also when the clock was set back: times are searched.
        self.events.append(Event(self.last + 1, message, max(now_us, self.last_us), expires_us))

    def find(self, id: str) -> Event | None:
        return next((event for event in reversed(self.events) if event.message.id == id), None)

    def __getitem__(self, number: int) -> Event:
        return self.events[number - self.first]

    def after(self, position: int, limit: int = 1) -> list[Event]:
        """The first events behind a position."""
        skipped = max(position + 1 - self.first, 0)
        return self.events[skipped : skipped + limit]

    def lag(self, position: int) -> int:
        return max(self.last - max(position, self.first - 1), 0)

    def before(self, time_us: int) -> int:
        """The number of the last event that was written before a time."""
        return self.first - 1 + bisect_left(self.events, time_us, key=lambda event: event.at_us)

    def position(self, start: Start) -> int:
        """The position after which what a start means begins."""
        match start.at:
            case "new":
                return self.last
            case "beginning":
                return self.first - 1
            case "time":
                return self.before(start.time_us)
            case "event":
                event = self.find(start.event)
                if event is None:
                    raise UnknownEvent(
                        f"the topic holds no event {start.event!r}: it never did, or it was trimmed"
                    )
                return event.number - 1

    def trim(self, up_to: int, limit: int) -> int:
        count = max(min(up_to - self.first + 1, limit, len(self.events)), 0)
        del self.events[:count]
        self.first += count
        return count


class TopicState(StreamState):
    """Its entries are the events that are due later."""

    def __init__(self, stream: Stream, around: Surroundings) -> None:
        super().__init__(stream, around)
        self.rules = TopicRules()
        self.log = Log()
        self.groups: dict[str, GroupState] = {}
        self.removed: set[str] = set()

    @property
    def in_use(self) -> bool:
        return super().in_use or bool(self.log.events or self.groups)

    def find(self, id: str, now_us: int) -> Entry | EndRecord | None:
        event = self.log.find(id)
        if event is None:
            return super().find(id, now_us)
        return Entry(event.message, event.number, JobStatus.QUEUED, event.at_us)

    def queued(self) -> int:
        return len(self.log.events)

    def oldest_us(self) -> int:
        return self.log.first_us

    def holder(self, id: str, key: str, now_us: int) -> str | None:
        """A topic knows no ids: an event that is published twice is there twice."""
        return self.key_holder(key, now_us)

    def append(self, batch: Batch, now_us: int) -> list[Answer]:
        if batch.limit is not None:
            self.trim(TRIMMED_BESIDE, now_us)
        answers = super().append(batch, now_us)
        self.trim(len(answers) + TRIMMED_BESIDE, now_us)
        return answers

    def _append(self, message: Message, limit: int | None, now_us: int) -> Answer:
        key = message.unique.key if message.unique else ""
        if limit is not None and not self.holder(message.id, key, now_us) and not self._room(limit, now_us):
            return Answer(message.id, "full")
        return super()._append(message, None, now_us)

    def _room(self, limit: int, now_us: int) -> int:
        return room_in_log(limit, self.log.first, self.log.last, self.groups.values(), now_us)

    def _add(self, message: Message, now_us: int) -> None:
        # A unique key belongs to the topic, not to its groups, and there all have the same priority.
        super()._add(msgspec.structs.replace(message, unique=None, priority=NORMAL), now_us)

    def _queue(self, entry: Entry, now_us: int, *, returned: bool = False) -> None:
        self.entries.pop(entry.id, None)  # it may have been published twice
        self.log.add(entry.message, entry.expires_us, now_us)

    # --- retention ---------------------------------------------------------------------------------------

    def trim(self, limit: int, now_us: int) -> int:
        return self.log.trim(self._may_go(now_us), limit)

    def kept(self, trimmed: int, now_us: int) -> KeptTopics:
        """The figures of the topic after so many events were trimmed."""
        spare = self._spare(now_us) if self.rules.strict else 0
        behind = [group for group in self.groups.values() if group.low_water < spare]
        is_held = spare >= self.log.first
        return KeptTopics(
            trimmed,
            self._may_go(now_us) >= self.log.first,
            holding=tuple(group.stream for group in behind if is_held and is_live(group, now_us)),
            passed=tuple(group.stream for group in behind if not is_live(group, now_us)),
        )

    def _spare(self, now_us: int) -> int:
        """The number up to which age or length let events go."""
        rules = self.rules
        by_age = self.log.before(now_us - rules.retention_us + 1) if rules.retention_us else 0
        by_length = 0 if rules.max_length is None else self.log.last - rules.max_length
        return max(by_age, by_length)

    def _may_go(self, now_us: int) -> int:
        """The number up to which events can be trimmed now: a live group may hold some of these events."""
        held = [group.low_water for group in self.groups.values() if is_live(group, now_us)]
        return min([self._spare(now_us), *(held if self.rules.strict else [])])


def is_live(group: GroupState, now_us: int) -> bool:
    return group.seen_us + LIVE_FOR > now_us
