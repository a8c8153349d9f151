"""A group's stream: a queue that draws from the log of its topic what is claimed beyond what it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.core.claim import Claim
from headrace.core.message import NORMAL, Source, Stream
from headrace.core.orders import Order
from headrace.core.record import JobStatus, Record
from headrace.core.topics import BEGINNING, PARKED_MOST, Start

from .agenda import Agenda
from .entry import Entry
from .lanes import FIRST_PRIORITY, Lanes
from .log import Event
from .order import Parking
from .shelf import Shelf
from .topic import TopicShelf

#: The lane behind which a group draws.
DRAWING = FIRST_PRIORITY + NORMAL


class GroupShelf(Shelf):
    """It may be here before anybody joined it, because of its lease; then it has no position yet."""

    def __init__(
        self,
        stream: Stream,
        announce: Callable[[Order], None],
        numbers: Iterator[int],
        topic: TopicShelf,
    ) -> None:
        super().__init__(stream, announce, numbers)
        self.topic = topic
        self.joined = False
        self.position = 0
        self.ordered = False
        self.seen_us = 0
        self.parking = Parking()

    # --- the group ---------------------------------------------------------------------------------------

    def join(self, start: Start, *, ordered: bool, now_us: int) -> bool:
        new = not self.joined
        if new:
            self.position = self.topic.log.position(start)
            self._begin()
        self.ordered = ordered
        self.seen_us = now_us
        self.ring()
        return new

    def note_member(self, now_us: int) -> None:
        """A member speaks for the group: it lives, and if it was lost it is here again."""
        self.seen_us = now_us
        if not self.joined and self.stream.group not in self.topic.removed:
            self.join(BEGINNING, ordered=self.ordered, now_us=now_us)

    def leave(self) -> None:
        """It was removed: whoever waits for anything of it need not."""
        self.joined = False
        self.lanes, self.agenda, self.parking = Lanes(), Agenda(), Parking()
        self.entries.clear()
        self.ring()
        for id in list(self.watchers):
            for bell in self.watchers.pop(id):
                bell.ring(Record(self.stream, id, JobStatus.UNKNOWN))

    def reset(self, start: Start) -> bool:
        if not self.joined:
            return False
        self.position = self.topic.log.position(start)
        self.ring()
        return True

    def _begin(self) -> None:
        topic, name = self.topic, self.stream.group
        self.joined = self.established = topic.established = True
        topic.groups[name] = self
        topic.removed.discard(name)

    def ring(self) -> None:
        """Something can be claimed, perhaps."""
        self._ring()

    # --- looking -----------------------------------------------------------------------------------------

    def lag(self) -> int:
        return self.topic.log.lag(self.position) if self.joined else 0

    def drawn(self) -> int:
        """How many that it has drawn are queued."""
        return len(self.lanes) + len(self.parking)

    def queued(self) -> int:
        return self.drawn() + self.lag()

    def oldest_us(self) -> int:
        times = self.lanes.oldest_us(), self._oldest_untouched_us()
        return min((time for time in times if time), default=0)

    def oldest_written_us(self) -> int:
        """When the oldest event that nobody has begun to handle was written; 0: there is none."""
        fronts = self.lanes.fronts()
        times = [entry.written_us for entry in fronts if not entry.token]
        times.append(self._oldest_untouched_us())
        return min((time for time in times if time), default=0)

    def _oldest_untouched_us(self) -> int:
        following = self.topic.log.after(self.position) if self.joined else None
        times = self.parking.oldest_us(), following.at_us if following else 0
        return min((time for time in times if time), default=0)

    # --- drawing -----------------------------------------------------------------------------------------

    def take(self, source: Source, lane: int, limit: int, consumer: str, now_us: int) -> list[Claim]:
        claims = super().take(source, lane, limit, consumer, now_us)
        if lane == DRAWING and len(claims) < limit:
            for _ in range(limit - len(claims)):
                entry = self._draw(now_us)
                if entry is None:
                    break
                self.lanes.put(DRAWING, entry)
            claims += super().take(source, lane, limit - len(claims), consumer, now_us)
        return claims

    def _draw(self, now_us: int) -> Entry | None:
        """The next event that may run; those that may not are parked on the way."""
        while self.joined and len(self.parking) < PARKED_MOST:
            event = self.topic.log.after(self.position)
            if event is None:
                return None
            self.position = event.number
            if event.message.id in self.entries:
                continue
            entry = self._own(event)
            if not self.ordered or self.parking.let_in(entry):
                return entry
        return None

    def _own(self, event: Event) -> Entry:
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

    def _take_out(self, entry: Entry) -> None:
        if self.parking.take_out(entry):
            self._ring()  # there may be room to draw again
        else:
            super()._take_out(entry)

    def _part(self, entry: Entry, now_us: int) -> None:
        super()._part(entry, now_us)
        following = self.parking.pass_on(entry)
        if following is not None:
            self._queue(following, now_us)

    # --- steering ----------------------------------------------------------------------------------------

    def purge(self, mark_us: int, limit: int, marks: int, now_us: int) -> int:
        """Also what it has not drawn: that is queued as well."""
        for purged in range(limit):
            entry = self._next_waiting(now_us)
            if entry is None:
                return purged
            self._end_waiting(entry, mark_us, marks, now_us)
        return limit

    def _next_waiting(self, now_us: int) -> Entry | None:
        if queued := self.lanes.take_any(1):
            return queued[0]
        if self.agenda.first_us() is not None:
            return self.agenda.pop()
        if drawn := self._draw(now_us):
            return drawn
        if parked := self.parking.first():  # also what was parked just now, on the way
            self.parking.take_out(parked)
        return parked
