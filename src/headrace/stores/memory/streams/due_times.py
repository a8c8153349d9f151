"""Keeps the scheduled and retrying messages of a stream, by due time."""

from __future__ import annotations

import heapq

from headrace.core.records.record import JobStatus

from .entry import Entry

#: Stale entries are removed once the heap is this long and most of it is stale.
SWEEP_FROM = 64


class DueMessages:
    """A heap. An entry that leaves early stays in the heap until it reaches the top or a sweep removes it.
    Its changed state or due time shows that it is stale."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Entry]] = []
        self._pushes = 0
        self._waiting = {JobStatus.SCHEDULED: 0, JobStatus.RETRYING: 0}

    def __len__(self) -> int:
        return sum(self._waiting.values())

    def count(self, status: JobStatus) -> int:
        return self._waiting[status]

    def put(self, entry: Entry) -> bool:
        """Add an entry; returns whether it is due before all others."""
        first = self.first_us()
        self._pushes += 1  # settles ties, so that entries are never compared
        heapq.heappush(self._heap, (entry.due_us, self._pushes, entry))
        self._waiting[entry.status] += 1
        return first is None or entry.due_us < first

    def forget(self, entry: Entry) -> None:
        """Call this before the entry changes its state."""
        self._waiting[entry.status] -= 1
        if len(self._heap) >= SWEEP_FROM and len(self._heap) > 2 * len(self):
            self._heap = [row for row in self._heap if row[2] is not entry and _waits(row)]
            heapq.heapify(self._heap)

    def first_us(self) -> int | None:
        while self._heap and not _waits(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> Entry:
        """Remove and return the entry of `first_us`."""
        entry = heapq.heappop(self._heap)[2]
        self._waiting[entry.status] -= 1
        return entry

    def count_due(self, now_us: int) -> int:
        """Reads only the due part of the heap, which is short while a worker promotes."""
        due, to_visit = 0, [0]
        while to_visit:
            index = to_visit.pop()
            if index < len(self._heap) and self._heap[index][0] <= now_us:
                due += _waits(self._heap[index])
                to_visit += (2 * index + 1, 2 * index + 2)
        return due


def _waits(row: tuple[int, int, Entry]) -> bool:
    due_us, _, entry = row
    return entry.due_us == due_us and entry.status in (JobStatus.SCHEDULED, JobStatus.RETRYING)
