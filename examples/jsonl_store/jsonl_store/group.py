"""A group's stream: a queue that draws from the log of its topic what is claimed beyond what it has."""

from __future__ import annotations

from headrace.store import (
    BEGINNING,
    NORMAL,
    Claim,
    DeferredKeys,
    JobStatus,
    Ordering,
    Start,
    Stream,
    may_park,
)

from .entry import Entry
from .messages import FIRST_PRIORITY, Surroundings
from .stream import StreamState
from .topic import Event, TopicState

#: The lane into which a group draws.
DRAWING = FIRST_PRIORITY + NORMAL


class KeyLine:
    """The keys of an ordered group: which entry holds each, and which are parked behind it."""

    def __init__(self) -> None:
        self.holders: dict[str, Entry] = {}
        self.parked: dict[str, dict[str, Entry]] = {}  # by key, by id, the first come first

    def __len__(self) -> int:
        """How many are parked."""
        return sum(map(len, self.parked.values()))

    def count(self, key: str) -> int:
        return len(self.parked.get(key, ()))

    def all(self) -> list[Entry]:
        return [entry for line in self.parked.values() for entry in line.values()]

    def has(self, entry: Entry) -> bool:
        """Whether it holds its key or is parked."""
        key = entry.message.key
        return self.holders.get(key) is entry or entry.id in self.parked.get(key, ())

    def let_in(self, entry: Entry) -> bool:
        """Give it its key; False: another holds that, and the entry is parked."""
        key = entry.message.key
        if not key or self.holders.setdefault(key, entry) is entry:
            return True
        self.parked.setdefault(key, {})[entry.id] = entry
        return False

    def pass_on(self, entry: Entry) -> Entry | None:
        """The entry has ended: the next one that holds its key."""
        key = entry.message.key
        if self.holders.get(key) is not entry:
            return None
        del self.holders[key]
        following = next(iter(self.parked.get(key, {}).values()), None)
        if following is not None:
            self.take_out(following)
            self.holders[key] = following
        return following

    def take_out(self, entry: Entry) -> bool:
        """Remove a parked entry; False: it is not parked."""
        key = entry.message.key
        line = self.parked.get(key, {})
        if line.pop(entry.id, None) is None:
            return False
        if not line:
            del self.parked[key]
        return True


class GroupState(StreamState):
    """It may be here before it is joined, because of its lease. Then it has no position yet."""

    def __init__(self, stream: Stream, around: Surroundings, topic: TopicState) -> None:
        super().__init__(stream, around)
        self.topic = topic
        self.joined = False
        self.position = 0
        self.ordering = Ordering()
        self.seen_us = 0
        self.line = KeyLine()
        self.deferred = DeferredKeys()
        self.again = 0  # up to this number it may have drawn events before: it was reset

    # --- the group ---------------------------------------------------------------------------------------

    @property
    def removed(self) -> bool:
        return self.stream.group in self.topic.removed

    def join(self, start: Start, *, ordered: bool, now_us: int) -> bool:
        new = not self.joined
        if new:
            self.position = self.topic.log.position(start)
            self.joined = self.established = self.topic.established = True
            self.topic.groups[self.stream.group] = self
            self.topic.removed.discard(self.stream.group)
        self.ordering = self.ordering.seen(now_us, wants_order=ordered)
        self.seen_us = now_us
        return new

    def note_member(self, now_us: int, *, wants_order: bool | None) -> None:
        """A member joins or renews the group. A group that the store has lost is created again."""
        self.seen_us = now_us
        if not self.joined and not self.removed:
            self.join(BEGINNING, ordered=bool(wants_order), now_us=now_us)
        elif wants_order is not None:
            self.ordering = self.ordering.seen(now_us, wants_order=wants_order)

    def leave(self) -> None:
        """It was removed: wakes the callers that wait for one of its messages."""
        ids = list(self.entries)
        self.joined = False
        self.entries.clear()
        for id in ids:
            self.around.ended(self.stream, id)

    def reset(self, start: Start, now_us: int) -> bool:
        if not self.joined:
            return False
        position = self.topic.log.position(start)
        self.again = max(self.again, self.position)
        self.position = position
        self.deferred = DeferredKeys()
        self._take_back(now_us)
        return True

    def _take_back(self, now_us: int) -> None:
        """Forget what has a key, was never handed out, and is drawn again behind the new position."""
        numbers = {event.message.id: event.number for event in self.topic.log.events}
        for entry in [*self.line.all(), *self.lanes[DRAWING].values()]:
            untouched = not entry.token and self.line.has(entry)
            if untouched and numbers.get(entry.id, 0) > self.position:
                self._take_out(entry)
                del self.entries[entry.id]
                self._hand_on(entry, now_us)

    # --- looking -----------------------------------------------------------------------------------------

    @property
    def lag(self) -> int:
        log = self.topic.log
        return log.lag(self.position) + self.deferred.passed(self.position, log.first) if self.joined else 0

    @property
    def low_water(self) -> int:
        """Whatever comes after this number may be still to be drawn."""
        first = self.deferred.first
        return self.position if first is None else min(self.position, first - 1)

    @property
    def stalled(self) -> bool:
        return self.deferred.too_many and self.position < self.topic.log.last

    @property
    def drawn(self) -> int:
        """How many that it has drawn are queued."""
        return self.in_lanes() + len(self.line)

    def queued(self) -> int:
        return self.drawn + self.lag

    def oldest_us(self) -> int:
        return _earliest(super().oldest_us(), self._oldest_untouched_us())

    def oldest_written_us(self) -> int:
        """When the oldest event that no worker has begun to handle was written; 0: there is none."""
        fronts = [entry.written_us for entry in self.fronts() if not entry.token]
        return _earliest(*fronts, self._oldest_untouched_us())

    def _oldest_untouched_us(self) -> int:
        parked = [entry.written_us for entry in self.line.all()]
        following = self.topic.log.after(self.low_water) if self.joined else []
        return _earliest(*parked, *(event.at_us for event in following))

    # --- drawing -----------------------------------------------------------------------------------------

    @property
    def may_draw(self) -> bool:
        """Whether a claim changes anything here, beside what is in the lanes."""
        if not self.joined:
            return not self.removed
        return bool(self.deferred.drawable) or (
            self.position < self.topic.log.last and not self.deferred.too_many
        )

    def take(self, lane: int, limit: int, room: int, consumer: str, now_us: int) -> list[Claim]:
        if lane == DRAWING:
            for _ in range(limit - len(self.lanes[DRAWING])):
                if entry := self._draw():
                    self._put(entry, DRAWING)
        return super().take(lane, limit, room, consumer, now_us)

    def _draw(self) -> Entry | None:
        """The next event that may run; those that may not are parked or passed over on the way."""
        if self.deferred.drawable and (entry := self._catch_up()):
            return entry
        while self.joined and not self.deferred.too_many:
            following = self.topic.log.after(self.position)
            if not following:
                return None
            self.position = following[0].number
            if entry := self._meet(following[0]):
                return entry
        return None

    def _meet(self, event: Event) -> Entry | None:
        """The next event of the log, if it may run."""
        id, key = event.message.id, event.message.key
        if key in self.deferred.keys:
            self.deferred.pass_over(key, event.number)
        elif not self.ordering.ordered or not key:
            return None if id in self.entries else self._own(event)
        elif id in self.entries:
            if self._comes_again(event):
                self.deferred.pass_over(key, event.number)
        elif key not in self.line.holders or may_park(self.line.count(key), len(self.line)):
            return self._let_in(event)
        else:
            self.deferred.pass_over(key, event.number)
        return None

    def _comes_again(self, event: Event) -> bool:
        """Whether an event that it has is to be handled once more after that: the group was reset."""
        return event.number <= self.again and self.line.has(self.entries[event.message.id])

    def _catch_up(self) -> Entry | None:
        """The next event of a deferred key that may run; others of these keys are parked on the way."""
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

    def _must_wait(self, event: Event) -> bool:
        if not may_park(self.line.count(event.message.key), len(self.line), deferred=True):
            return True
        return event.message.id in self.entries and self._comes_again(event)

    def _meet_again(self, event: Event) -> Entry | None:
        """The next event of a deferred key, if it may run."""
        self.deferred.met(event.message.key, event.number)
        return None if event.message.id in self.entries else self._let_in(event)

    def _let_in(self, event: Event) -> Entry | None:
        entry = self._own(event)
        return entry if self.line.let_in(entry) else None

    def _own(self, event: Event) -> Entry:
        entry = Entry(event.message, next(self.around.numbers), JobStatus.QUEUED, event.at_us)
        entry.expires_us, entry.written_us = event.expires_us, event.at_us
        self.entries[entry.id] = entry
        return entry

    # --- order -------------------------------------------------------------------------------------------

    def _enter(self, entry: Entry, now_us: int) -> None:
        if not self.ordering.ordered or self.line.let_in(entry):
            self._queue(entry, now_us)
        else:
            entry.status, entry.since_us = JobStatus.QUEUED, now_us

    def _take_out(self, entry: Entry) -> None:
        if self.line.take_out(entry):
            self.deferred.note_room(entry.message.key, self.line.count(entry.message.key))
        else:
            super()._take_out(entry)

    def _part(self, entry: Entry, now_us: int) -> None:
        super()._part(entry, now_us)
        self._hand_on(entry, now_us)

    def _hand_on(self, entry: Entry, now_us: int) -> None:
        following = self.line.pass_on(entry)
        if following is not None:
            self._queue(following, now_us)
        self.deferred.note_room(entry.message.key, self.line.count(entry.message.key))

    # --- steering ----------------------------------------------------------------------------------------

    def purge(self, ttl_us: int, limit: int, end_records: int, now_us: int) -> int:
        """Also what it has not drawn: that is queued as well. What runs is not handled again after that."""
        self.again = 0
        self.deferred.drawable.update(self.deferred.keys)
        return super().purge(ttl_us, limit, end_records, now_us)

    def _next_waiting(self) -> Entry | None:
        if waiting := super()._next_waiting():
            return waiting
        if drawn := self._draw():
            self._put(drawn, DRAWING)
            return drawn
        return next(iter(self.line.all()), None)  # also what was parked just now, on the way


def _earliest(*times_us: int) -> int:
    return min((time for time in times_us if time), default=0)
