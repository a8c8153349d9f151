"""Keeps the history of one stream: its ended jobs, by id and in the order of their ends. The caller holds the
lock."""

from __future__ import annotations

from bisect import bisect_left, insort

from headrace.core.history.entry import HistoryEntry
from headrace.core.history.recording import SCANNED, RingLimits


class HistoryRing:
    def __init__(self) -> None:
        self.by_id: dict[str, HistoryEntry] = {}
        self._keys: list[tuple[int, str]] = []  # the earliest end first
        self._size = 0

    def put(self, entry: HistoryEntry) -> None:
        known = self.by_id.get(entry.id)
        if known is not None and known.ended_us > entry.ended_us:
            return
        self._remove(entry.id)
        self.by_id[entry.id] = entry
        insort(self._keys, entry.key)
        self._size += entry.size

    def trim(self, limits: RingLimits, most: int) -> None:
        while most > 0 and self._keys and self._is_beyond(limits):
            self._remove(self._keys[0][1])
            most -= 1

    def _is_beyond(self, limits: RingLimits) -> bool:
        too_many = limits.entries is not None and len(self._keys) > limits.entries
        return too_many or (limits.size is not None and self._size > limits.size)

    def prune(self, limit: int, now_us: int) -> int:
        """Entries end in the order in which their times pass, nearly: each has the same time to live."""
        first = self.by_id[self._keys[0][1]] if self._keys else None
        pruned = 0
        while first is not None and pruned < limit and first.is_past(now_us):
            self._remove(first.id)
            pruned += 1
            first = self.by_id[self._keys[0][1]] if self._keys else None
        return pruned

    def before(self, key: tuple[int, str]) -> list[HistoryEntry]:
        """The next entries of a listing."""
        end = bisect_left(self._keys, key)
        return [self.by_id[id] for _, id in reversed(self._keys[max(0, end - SCANNED) : end])]

    def _remove(self, id: str) -> None:
        entry = self.by_id.pop(id, None)
        if entry is not None:
            del self._keys[bisect_left(self._keys, entry.key)]
            self._size -= entry.size
