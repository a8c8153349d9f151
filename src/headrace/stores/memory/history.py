"""The verbs about history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from headrace.core.history.entry import HistoryEntry
from headrace.core.history.recording import SCANNED, TRIMMED, Recording, RingLimits, cursor_of, key_of
from headrace.core.messages.message import Stream
from headrace.core.records.record import JobStatus, Page

from .shared_state import SharedState


class MemoryHistory(Recording):
    _store: SharedState
    _lock: Lock
    _now_us: Callable[[], int]

    async def record_history(
        self, stream: Stream, entries: Sequence[HistoryEntry], limits: RingLimits
    ) -> None:
        with self._lock:
            ring = self._store.history_of(stream)
            for entry in entries:
                ring.put(entry)
            ring.trim(limits, len(entries) + TRIMMED)

    async def history(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[HistoryEntry]:
        key = key_of(cursor)
        with self._lock:
            ring, now_us = self._store.history.get(stream), self._now_us()
            scanned = [] if ring is None else ring.before(key)
        found = [
            entry
            for entry in scanned
            if not entry.is_past(now_us) and status in (None, entry.status) and task in (None, entry.task)
        ]
        if len(found) > limit:
            return Page(tuple(found[:limit]), cursor_of(found[limit - 1].key))
        return Page(tuple(found), cursor_of(scanned[-1].key) if len(scanned) == SCANNED else None)

    async def find_history(self, stream: Stream, ids: Sequence[str]) -> list[HistoryEntry | None]:
        with self._lock:
            ring, now_us = self._store.history.get(stream), self._now_us()
            found = [None if ring is None else ring.by_id.get(id) for id in ids]
        return [None if entry is None or entry.is_past(now_us) else entry for entry in found]
