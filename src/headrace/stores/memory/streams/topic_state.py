"""The stream of a topic: the log, the events that are due later, and the trimming of old events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from headrace.core.errors import Moved
from headrace.core.messages.message import NORMAL, Batch, Message, Stream
from headrace.core.records.answers import Answer
from headrace.core.records.control import ControlMessage
from headrace.core.records.record import JobStatus
from headrace.core.topics.retention import kept_in, may_go, room_in_log
from headrace.core.topics.topic import TRIMMED_BESIDE, KeptTopics, TopicRules
from headrace.stores.memory.limits import LimitStates

from .end_records import EndRecord
from .entry import Entry
from .log import TopicLog
from .stream_state import UNLIMITED, StreamState

if TYPE_CHECKING:
    from .group_state import GroupState


class TopicState(StreamState):
    """Its entries are the events that are due later. `waiters` holds the waiters of readers, and of claims
    for a group that was removed and may be joined again."""

    def __init__(
        self,
        stream: Stream,
        announce: Callable[[ControlMessage], None],
        numbers: Iterator[int],
        limits: LimitStates,
    ) -> None:
        super().__init__(stream, announce, numbers, limits)
        self.rules = TopicRules()
        self.log = TopicLog()
        self.groups: dict[str, GroupState] = {}
        self.removed: set[str] = set()

    def declare_topic(self, rules: TopicRules) -> None:
        self.refuse_if_sealed()
        self.established = True
        self.rules = rules

    def refuse_if_sealed(self) -> None:
        if self.sealed:
            raise Moved(f"{self.stream.name} is sealed")

    def find(self, id: str, now_us: int) -> Entry | EndRecord | None:
        event = self.log.get(id)
        if event is None:
            return super().find(id, now_us)
        return Entry(event.message, event.number, JobStatus.QUEUED, event.at_us)

    def queued(self) -> int:
        return len(self.log)

    def oldest_us(self) -> int:
        return self.log.first_us

    @property
    def in_use(self) -> bool:
        return super().in_use or len(self.log) > 0 or bool(self.groups)

    # --- in ----------------------------------------------------------------------------------------------

    def append(self, batch: Batch, now_us: int, *, ticking: bool = False) -> list[Answer]:
        answers = super().append(batch, now_us, ticking=ticking)
        self.trim(len(answers) + TRIMMED_BESIDE, now_us)
        return answers

    def holder(self, id: str, key: str, now_us: int) -> str | None:
        """A topic does not compare ids: an event that is published twice is stored twice."""
        return self.keys.owner(key, now_us) if key else None

    def _room(self, limit: int | None, now_us: int) -> int:
        if limit is None:
            return UNLIMITED
        self.trim(TRIMMED_BESIDE, now_us)
        return room_in_log(limit, self.log.first, self.log.last, self.groups.values(), now_us)

    def _refusal(self, message: Message, room: int, now_us: int) -> Answer | None:
        if message.unique and (owner := self.keys.owner(message.unique.key, now_us)):
            return Answer(owner, "duplicate")
        return None if room > 0 else Answer(message.id, "full")

    def _add(self, message: Message, now_us: int) -> None:
        due_us = max(message.due_us, now_us + message.delay_us)
        entry = Entry(_event(message), next(self._numbers), JobStatus.QUEUED, now_us)
        entry.expires_us = due_us + message.lifetime_us if message.lifetime_us else 0
        if due_us > now_us:
            self.entries[message.id] = entry
            self._schedule(entry, JobStatus.SCHEDULED, due_us, now_us)
        else:
            self._write(entry, now_us)

    def _queue(self, entry: Entry, now_us: int, *, returned: bool = False) -> None:
        self.entries.pop(entry.message.id, None)
        entry.status = JobStatus.QUEUED  # so that `due_messages` finds it stale
        self._write(entry, now_us)
        self._wake_waiters()

    def _write(self, entry: Entry, now_us: int) -> None:
        self.log.add(entry.message, entry.expires_us, now_us)

    def _wake_waiters(self) -> None:
        for waiter in self.waiters:
            waiter.wake(None)
        self.waiters.clear()
        for group in self.groups.values():
            group.wake()

    # --- retention ---------------------------------------------------------------------------------------

    def trim(self, limit: int, now_us: int) -> int:
        return self.log.trim(self._may_go(now_us), limit)

    def kept(self, trimmed: int, now_us: int) -> KeptTopics:
        """The answer after `trimmed` events were trimmed."""
        spare = self._spare(now_us) if self.rules.strict else 0
        kept = kept_in(spare, self.log.first, self.groups.values(), now_us)
        return KeptTopics(trimmed, self._may_go(now_us) >= self.log.first) + kept

    def _spare(self, now_us: int) -> int:
        """The number up to which the limits of age or length allow trimming."""
        rules, log = self.rules, self.log
        by_age = log.before(now_us - rules.retention_us + 1) if rules.retention_us else 0
        by_length = log.last - rules.max_length if rules.max_length is not None else 0
        return max(by_age, by_length)

    def _may_go(self, now_us: int) -> int:
        """The number up to which events may go."""
        spare = self._spare(now_us)
        return may_go(spare, self.groups.values(), now_us) if self.rules.strict else spare


def _event(message: Message) -> Message:
    """The event for groups: its unique key belongs to the topic, and all events of a group have the same
    priority."""
    if message.unique is None and message.priority == NORMAL:
        return message
    return msgspec.structs.replace(message, unique=None, priority=NORMAL)
