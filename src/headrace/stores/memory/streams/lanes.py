"""Keeps the queued messages of a stream in five lanes, first in, first out. Child work has its own five."""

from __future__ import annotations

from collections import deque
from math import inf

from headrace.core.messages.message import PRIORITIES
from headrace.core.records.record import JobStatus

from .entry import Entry
from .lines import Lines

SUSPECT, RETURNED = 0, 1
#: The lane of a priority is this plus its number.
FIRST_PRIORITY = 2
TOP_DOWN = tuple(range(FIRST_PRIORITY, FIRST_PRIORITY + len(PRIORITIES)))
BOTTOM_UP = TOP_DOWN[::-1]
#: The lane of child work is the normal lane plus this.
CHILD = FIRST_PRIORITY + len(PRIORITIES)

#: Stale entries are removed once there are this many and most entries are stale.
SWEEP_FROM = 64

_QUEUED = JobStatus.QUEUED


class Lanes:
    """Entries leave at the front. An entry that ends while it waits is only counted, and skipped later: this
    keeps every step short. A sweep limits the memory that such entries hold."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self._lanes: tuple[deque[Entry], ...] = tuple(deque() for _ in range(2 * CHILD))
        self.held_children = False  # whether child work was ever here
        self._stale = 0

    def __len__(self) -> int:
        return sum(map(len, self._lanes)) - self._stale + len(self.lines)

    def put(self, lane: int, entry: Entry) -> None:
        if entry.message.child:
            lane += CHILD
            self.held_children = True
        if entry.message.constraints is None:
            self._lanes[lane].append(entry)
        else:
            self.lines.put(lane, entry)

    def take(self, lane: int, limit: int, room: float = inf) -> list[Entry]:
        """Take at most `limit` entries, and no more once they have `room` bytes."""
        waiting = self._lanes[lane]
        taken: list[Entry] = []
        while waiting and len(taken) < limit and room > 0:
            entry = waiting.popleft()
            if entry.status is _QUEUED:
                taken.append(entry)
                room -= len(entry.message.body)
            else:
                self._stale -= 1
        return taken

    def take_any(self, limit: int, now_us: int) -> list[Entry]:
        taken: list[Entry] = []
        for lane in range(len(self._lanes)):
            taken += self.take(lane, limit - len(taken))
        return taken + self.lines.take_any(limit - len(taken), now_us)

    def forget(self, entry: Entry, now_us: int) -> None:
        """Call this before an entry ends that was not taken."""
        if entry.message.constraints is not None:
            self.lines.forget(entry, now_us)
            return
        self._stale += 1
        if self._stale >= SWEEP_FROM and 2 * self._stale > sum(map(len, self._lanes)):
            self._sweep(entry)

    def waiting(self, lane: int) -> list[Entry]:
        return [entry for entry in self._lanes[lane] if entry.status is _QUEUED]

    def oldest_us(self) -> int:
        """When the longest-waiting entry became ready; 0: there is none."""
        return min((entry.since_us for entry in self.fronts()), default=0)

    def fronts(self) -> list[Entry]:
        """The longest-waiting entry of each lane."""
        fronts = [*map(self._front, self._lanes), self.lines.front()]
        return [entry for entry in fronts if entry is not None]

    def _front(self, lane: deque[Entry]) -> Entry | None:
        while lane and lane[0].status is not _QUEUED:
            lane.popleft()
            self._stale -= 1
        return lane[0] if lane else None

    def _sweep(self, leaving: Entry) -> None:
        self._lanes = tuple(
            deque(entry for entry in lane if entry.status is _QUEUED and entry is not leaving)
            for lane in self._lanes
        )
        self._stale = 0
