"""The stream of a group: a queue. When a claim wants more than it holds, it draws events from its topic's
log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.core.messages.claim import Claim, size_of
from headrace.core.messages.message import NORMAL, Stream
from headrace.core.records.control import ControlMessage
from headrace.core.records.record import JobStatus, Record
from headrace.core.topics.deferred_keys import DeferredKeys
from headrace.core.topics.topic import BEGINNING, Ordering, Start, may_park
from headrace.stores.memory.limits import LimitStates

from .due_times import DueMessages
from .entry import Entry
from .lanes import FIRST_PRIORITY
from .log import StoredEvent
from .parked_keys import ParkedKeys
from .stream_state import StreamState
from .topic_state import TopicState

#: The lane after which a group draws.
DRAWING = FIRST_PRIORITY + NORMAL


class GroupState(StreamState):
    """The state may exist before a member has joined, because of the lease. Then it has no position yet."""

    def __init__(
        self,
        stream: Stream,
        announce: Callable[[ControlMessage], None],
        numbers: Iterator[int],
        limits: LimitStates,
        topic: TopicState,
    ) -> None:
        super().__init__(stream, announce, numbers, limits)
        self.topic = topic
        self.joined = False
        self.position = 0
        self.ordering = Ordering()
        self.seen_us = 0
        self.deferred = DeferredKeys()
        self.again = 0  # after a reset: up to this number it may have drawn events before

    # --- the group ---------------------------------------------------------------------------------------

    def join(self, start: Start, *, ordered: bool, now_us: int) -> bool:
        new = not self.joined
        if new:
            self.position = self.topic.log.position(start)
            self._begin()
        self.ordering = self.ordering.seen(now_us, wants_order=ordered)
        self.seen_us = now_us
        self.wake()
        return new

    @property
    def ordered(self) -> bool:
        return self.ordering.ordered

    def note_member(self, now_us: int, *, wants_order: bool | None) -> None:
        """Note that the group has a live member, and create a lost group again. `wants_order` None: the
        process is not a member."""
        self.seen_us = now_us
        if not self.joined and self.stream.group not in self.topic.removed:
            self.join(BEGINNING, ordered=bool(wants_order), now_us=now_us)
        elif wants_order is not None:
            self.ordering = self.ordering.seen(now_us, wants_order=wants_order)

    def leave(self) -> None:
        """The group was removed: release all callers that wait for its messages."""
        self.joined = False
        self.lanes = self._new_lanes(self._limits, self._numbers)
        self.due_messages, self.parking = DueMessages(), ParkedKeys()
        self.deferred, self.again = DeferredKeys(), 0
        self.entries.clear()
        self.wake()
        for id in list(self.watchers):
            for waiter in self.watchers.pop(id):
                waiter.wake(Record(self.stream, id, JobStatus.UNKNOWN))

    def reset(self, start: Start, now_us: int) -> bool:
        if not self.joined:
            return False
        self.again = max(self.again, self.position)
        self.position = self.topic.log.position(start)
        self.deferred = DeferredKeys()
        self._take_back(now_us)
        self.wake()
        return True

    def _take_back(self, now_us: int) -> None:
        """Drop entries that have a key, were never claimed, and are drawn again after the new position."""
        untouched = [*self.parking.parked(), *self.lanes.waiting(DRAWING)]
        for entry in [entry for entry in untouched if not entry.token and self.parking.has(entry)]:
            event = self.topic.log.get(entry.message.id)
            if event is not None and event.number > self.position:
                self._take_out(entry, now_us)
                entry.status = JobStatus.UNKNOWN  # so that the lane sees that it is stale
                del self.entries[entry.message.id]
                self._hand_on(entry, now_us)

    def _begin(self) -> None:
        topic, name = self.topic, self.stream.group
        self.joined = self.established = topic.established = True
        topic.groups[name] = self
        topic.removed.discard(name)

    # --- looking -----------------------------------------------------------------------------------------

    def lag(self) -> int:
        log = self.topic.log
        return log.lag(self.position) + self.deferred.passed(self.position, log.first) if self.joined else 0

    @property
    def low_water(self) -> int:
        """The group may still have to draw events after this number."""
        first = self.deferred.first
        return self.position if first is None else min(self.position, first - 1)

    @property
    def stalled(self) -> bool:
        return self.deferred.too_many and self.position < self.topic.log.last

    def drawn(self) -> int:
        """How many drawn events are queued."""
        return len(self.lanes) + len(self.parking)

    def queued(self) -> int:
        return self.drawn() + self.lag()

    def oldest_us(self) -> int:
        times = self.lanes.oldest_us(), self._oldest_untouched_us()
        return min((time for time in times if time), default=0)

    def oldest_written_us(self) -> int:
        """When the oldest event that was never claimed was written; 0: there is none."""
        fronts = self.lanes.fronts()
        times = [entry.written_us for entry in fronts if not entry.token]
        times.append(self._oldest_untouched_us())
        return min((time for time in times if time), default=0)

    def _oldest_untouched_us(self) -> int:
        following = self.topic.log.after(self.low_water) if self.joined else None
        times = self.parking.oldest_us(), following.at_us if following else 0
        return min((time for time in times if time), default=0)

    # --- drawing -----------------------------------------------------------------------------------------

    def take(self, lane: int, limit: int, room: int, consumer: str, now_us: int) -> list[Claim]:
        claims = super().take(lane, limit, room, consumer, now_us)
        room -= size_of(claims)
        if lane == DRAWING and len(claims) < limit and room > 0:
            for _ in range(limit - len(claims)):
                entry = self._draw()
                if entry is None:
                    break
                self.lanes.put(DRAWING, entry)
            claims += super().take(lane, limit - len(claims), room, consumer, now_us)
        return claims

    def _draw(self) -> Entry | None:
        """The next event that may run. Earlier events that may not run are parked or passed over."""
        if self.deferred.drawable and (entry := self._catch_up()):
            return entry
        while self.joined and not self.deferred.too_many:
            event = self.topic.log.after(self.position)
            if event is None:
                return None
            self.position = event.number
            if entry := self._meet(event):
                return entry
        return None

    def _meet(self, event: StoredEvent) -> Entry | None:
        """Decide about the next event of the log; returns its entry if it may run."""
        id, key = event.message.id, event.message.key
        if key in self.deferred.keys:
            self.deferred.pass_over(key, event.number)
        elif not self.ordered or not key:
            return None if id in self.entries else self._own(event)
        elif id in self.entries:
            if self._comes_again(event):
                self.deferred.pass_over(key, event.number)
        elif self.parking.is_free(key) or may_park(self.parking.count(key), len(self.parking)):
            entry = self._own(event)
            return entry if self.parking.let_in(entry) else None
        else:
            self.deferred.pass_over(key, event.number)
        return None

    def _comes_again(self, event: StoredEvent) -> bool:
        """Whether an event that the group already has must run once more, because the group was reset."""
        return event.number <= self.again and self.parking.has(self.entries[event.message.id])

    def _catch_up(self) -> Entry | None:
        """The next event of a deferred key that may run. Earlier events of these keys are parked."""
        deferred, log, blocked = self.deferred, self.topic.log, set[str]()
        start, number = deferred.start(), self.position
        for number in range(max(start, log.first), self.position + 1):
            key = log[number].message.key
            if key in blocked or not deferred.is_due(key, number, start):
                continue
            if self._must_wait(log[number]):
                blocked.add(key)
                deferred.stop_at(key, number)
            elif entry := self._meet_again(log[number]):
                deferred.looked_up_to(number, self.position)
                return entry
            if not deferred.drawable:
                break
        deferred.looked_up_to(number, self.position)
        return None

    def _must_wait(self, event: StoredEvent) -> bool:
        parked = self.parking.count(event.message.key)
        if not may_park(parked, len(self.parking), deferred=True):
            return True
        return event.message.id in self.entries and self._comes_again(event)

    def _meet_again(self, event: StoredEvent) -> Entry | None:
        """Decide about the next event of a deferred key; returns its entry if it may run."""
        self.deferred.met(event.message.key, event.number)
        if event.message.id in self.entries:
            return None
        entry = self._own(event)
        return entry if self.parking.let_in(entry) else None

    def _own(self, event: StoredEvent) -> Entry:
        entry = Entry(event.message, next(self._numbers), JobStatus.QUEUED, event.at_us)
        entry.expires_us, entry.written_us = event.expires_us, event.at_us
        self.entries[event.message.id] = entry
        return entry

    # --- order -------------------------------------------------------------------------------------------

    def _enter(self, entry: Entry, now_us: int) -> None:
        if not self.ordered or self.parking.let_in(entry):
            self._queue(entry, now_us)
        else:
            entry.status, entry.since_us = JobStatus.QUEUED, now_us

    def _note_room(self, key: str) -> None:
        if self.deferred.keys and self.deferred.note_room(key, self.parking.count(key)):
            self._wake_waiters()

    # --- steering ----------------------------------------------------------------------------------------

    def purge(self, ttl_us: int, limit: int, end_records: int, now_us: int) -> int:
        """Events that the group has not drawn are queued too. A running event does not run again later."""
        self.again = 0
        self.deferred.drawable.update(self.deferred.keys)
        for purged in range(limit):
            entry = self._next_waiting(now_us)
            if entry is None:
                return purged
            self._end_waiting(entry, ttl_us, end_records, now_us)
        return limit

    def _next_waiting(self, now_us: int) -> Entry | None:
        if queued := self.lanes.take_any(1, now_us):
            return queued[0]
        if self.due_messages.first_us() is not None:
            return self.due_messages.pop()
        if drawn := self._draw():
            return drawn
        if parked := self.parking.first():  # also what `_draw` has just parked
            self._take_out(parked, now_us)
        return parked
