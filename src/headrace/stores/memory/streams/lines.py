"""Keeps the queued messages of a stream that have constraints, in lines. See `core/limits/limiting.py`."""

from __future__ import annotations

import heapq
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.core.messages.constraints import Constraints
from headrace.core.messages.message import Stream
from headrace.core.records.record import JobStatus

from .entry import Entry

if TYPE_CHECKING:
    from headrace.stores.memory.limits import LimitState, LimitStates

#: Ended messages are removed from a line once it is this long and most of them have ended.
SWEEP_FROM = 64

_QUEUED = JobStatus.QUEUED


class Line:
    """The queued messages of one lane with the same constraints. A message that ends while it waits is only
    counted, and skipped later."""

    __slots__ = ("_entries", "blocked_by", "constraints", "count", "is_open", "lane", "lines")

    def __init__(self, lines: Lines, lane: int, constraints: Constraints) -> None:
        self.lines = lines
        self.lane = lane
        self.constraints = constraints
        self.count = 0  # of the messages that are still queued
        self.is_open = False
        self.blocked_by: LimitState | None = None
        self._entries: deque[tuple[int, Entry]] = deque()

    @property
    def place(self) -> int:
        """The place of its first message among all that were ever queued."""
        while self._entries[0][1].status is not _QUEUED:
            self._entries.popleft()
        return self._entries[0][0]

    def put(self, place: int, entry: Entry) -> None:
        self._entries.append((place, entry))
        self.count += 1

    def take(self) -> Entry:
        """Remove the first message."""
        assert self.place
        self.count -= 1
        return self._entries.popleft()[1]

    def forget(self, entry: Entry) -> None:
        self.count -= 1
        if SWEEP_FROM <= len(self._entries) > 2 * self.count:
            self._entries = deque(
                row for row in self._entries if row[1].status is _QUEUED and row[1] is not entry
            )


class OpenLines:
    """The open lines of one lane. The tenants take turns; the lines of a tenant go by their places."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, list[tuple[int, int, Line]]] = OrderedDict()
        self._pushes = 0  # settles ties, so that lines are never compared

    def put(self, line: Line) -> None:
        self._pushes += 1
        lines = self._tenants.setdefault(line.constraints.tenant, [])
        heapq.heappush(lines, (line.place, self._pushes, line))
        line.is_open = True

    def take(self) -> Line | None:
        """Remove the line whose turn it is; None: no line is open."""
        while self._tenants:
            tenant, lines = next(iter(self._tenants.items()))
            line = heapq.heappop(lines)[2]
            if lines:
                self._tenants.move_to_end(tenant)
            else:
                del self._tenants[tenant]
            if line.is_open:
                line.is_open = False
                return line
        return None


class Lines:
    """All lines of a stream. `wake` wakes the claims that wait for the stream."""

    def __init__(
        self, stream: Stream, limits: LimitStates, places: Iterator[int], wake: Callable[[], None]
    ) -> None:
        self.stream = stream
        self._limits = limits
        self._places = places
        self._wake = wake
        self._lines: dict[tuple[int, Constraints], Line] = {}
        self._open: defaultdict[int, OpenLines] = defaultdict(OpenLines)
        self._ages: deque[Entry] = deque()  # in the order of queueing; the first may have left
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, lane: int, entry: Entry) -> None:
        constraints = _constraints(entry)
        line = self._lines.get((lane, constraints))
        if line is None:
            line = self._lines[lane, constraints] = Line(self, lane, constraints)
        line.put(next(self._places), entry)
        entry.lane = lane
        self._ages.append(entry)
        self._count += 1
        self._limits.count_waiting(constraints, 1)
        if line.count == 1:
            self.open(line)

    def open(self, line: Line) -> None:
        line.blocked_by = None
        self._open[line.lane].put(line)
        self._wake()

    def take(self, lane: int, limit: int, room: float, now_us: int) -> list[Entry]:
        """Take messages for which a slot and a token of each of their limits are free."""
        taken: list[Entry] = []
        lines = self._open[lane]
        while len(taken) < limit and room > 0 and (line := lines.take()) is not None:
            refusal = self._limits.acquire(line.constraints, now_us)
            if refusal is not None:
                self._limits.block(line, refusal, now_us)
                continue
            entry = line.take()
            taken.append(entry)
            room -= len(entry.message.body)
            if line.count:
                self._open[lane].put(line)
            self._left(line, now_us)
        return taken

    def take_any(self, limit: int, now_us: int) -> list[Entry]:
        """Take messages that end, without their limits."""
        taken: list[Entry] = []
        while len(taken) < limit and self._lines:
            line = next(iter(self._lines.values()))
            taken.append(line.take())
            self._left(line, now_us)
        return taken

    def forget(self, entry: Entry, now_us: int) -> None:
        """Call this before an entry ends that was not taken."""
        line = self._lines[entry.lane, _constraints(entry)]
        line.forget(entry)
        self._left(line, now_us)

    def _left(self, line: Line, now_us: int) -> None:
        """One message has left a line."""
        self._count -= 1
        self._limits.count_waiting(line.constraints, -1)
        if not line.count:
            del self._lines[line.lane, line.constraints]
            line.blocked_by, line.is_open = None, False
            self._limits.offer_to(line, now_us)

    def front(self) -> Entry | None:
        """The message that waits longest."""
        while self._ages and self._ages[0].status is not _QUEUED:
            self._ages.popleft()
        return self._ages[0] if self._ages else None

    def blocked(self) -> int:
        """How many messages wait for a limit."""
        return sum(line.count for line in self._lines.values() if line.blocked_by is not None)

    def blocked_by(self, entry: Entry) -> str:
        """The limit for which a queued message waits; empty: for none."""
        line = self._lines.get((entry.lane, _constraints(entry)))
        return line.blocked_by.name if line is not None and line.blocked_by is not None else ""


def _constraints(entry: Entry) -> Constraints:
    constraints = entry.message.constraints
    assert constraints is not None
    return constraints
