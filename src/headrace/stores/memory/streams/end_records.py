"""Keeps the end records of a stream, each for its time."""

from __future__ import annotations

import heapq

import msgspec

from headrace.core.messages.message import FRESH, State
from headrace.core.records.record import JobStatus


class EndRecord(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a message after its end, for a time."""

    id: str
    task: str
    number: int
    status: JobStatus
    ended_us: int
    until_us: int
    result: bytes | None = None
    note: str = ""
    state: State = FRESH


class EndRecords:
    """End records by id, with a heap of the times at which they expire. Expired ones are not visible."""

    def __init__(self) -> None:
        self.by_id: dict[str, EndRecord] = {}
        self._passing: list[tuple[int, int, EndRecord]] = []

    def keep(self, end_record: EndRecord) -> None:
        # An event may come again while its end record exists: the later record goes to the end.
        self.by_id.pop(end_record.id, None)
        self.by_id[end_record.id] = end_record
        heapq.heappush(self._passing, (end_record.until_us, end_record.number, end_record))

    def get(self, id: str, now_us: int) -> EndRecord | None:
        end_record = self.by_id.get(id)
        if end_record is None or end_record.until_us > now_us:
            return end_record
        # Removed here, so that a later record of the same id goes to the end of the dictionary.
        del self.by_id[id]
        return None

    def forget(self, id: str, status: JobStatus, now_us: int) -> bool:
        """Delete the record of a message; False: there is none with this status."""
        end_record = self.get(id, now_us)
        if end_record is None or end_record.status is not status:
            return False
        del self.by_id[id]
        return True

    def prune(self, limit: int, now_us: int) -> int:
        pruned = 0
        while pruned < limit and self._passing and self._passing[0][0] <= now_us:
            end_record = heapq.heappop(self._passing)[2]
            if self.by_id.get(end_record.id) is end_record:
                del self.by_id[end_record.id]
                pruned += 1
        return pruned
