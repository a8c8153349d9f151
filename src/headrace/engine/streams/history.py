"""The router's verbs about history. A store may lack it: then there is none.

A ring belongs to the whole queue. A settlement writes its record into the history of its own part. So a
question goes to the queue itself and to its parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from heapq import merge

import msgspec

from headrace.core.history.ended_job import record_of_entry, with_history
from headrace.core.history.entry import HistoryEntry
from headrace.core.history.recording import Recording, RingLimits, cursor_of
from headrace.core.messages.message import Stream
from headrace.core.records.answers import Wanted
from headrace.core.records.record import JobStatus, Page, Record

from .layouts import Routed


class HistoryVerbs(Routed):
    @property
    def records(self) -> bool:
        """Whether the store can keep a history."""
        return isinstance(self.store, Recording)

    async def record_history(
        self, stream: Stream, entries: Sequence[HistoryEntry], limits: RingLimits
    ) -> None:
        """The entry of a dead letter that was discarded meanwhile is not written. `discard` removes the dead
        letter first, and then its entry. So a look after the write misses none, and one before it keeps them
        from being seen for a moment."""
        if not isinstance(self.store, Recording):
            return
        dead = {entry.id for entry in entries if entry.status == JobStatus.DEAD}
        gone = await self._gone(stream, dead)
        written = [entry for entry in entries if entry.id not in gone]
        await self.store.record_history(stream, written, limits)
        if gone := await self._gone(stream, dead - gone):
            stored = await self.find_history(stream, list(gone))
            await self.forget_history(stream, [entry.id for entry in written if entry in stored])

    async def _gone(self, stream: Stream, dead: Collection[str]) -> set[str]:
        """Which dead letters are not in the store any more."""
        if not dead:
            return set()
        wanted = [Wanted(id) for id in dead]
        parts = await self._history_parts(stream)
        holders = await asyncio.gather(*(self.store.holders(part, wanted) for part in parts))
        return {id for id, *held in zip(dead, *holders, strict=True) if not any(held)}

    async def history(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[HistoryEntry]:
        store = self.store
        if not isinstance(store, Recording):
            return Page(())
        parts = await self._history_parts(stream)
        pages = await asyncio.gather(
            *(store.history(part, status=status, task=task, cursor=cursor, limit=limit) for part in parts)
        )
        return pages[0] if len(pages) == 1 else _merged(pages, limit)

    async def find_history(self, stream: Stream, ids: Sequence[str]) -> list[HistoryEntry | None]:
        store = self.store
        if not isinstance(store, Recording) or not ids:
            return [None] * len(ids)
        parts = await self._history_parts(stream)
        answers = await asyncio.gather(*(store.find_history(part, ids) for part in parts))
        return [_latest(found) for found in zip(*answers, strict=True)]

    async def forget_history(self, stream: Stream, ids: Sequence[str]) -> int:
        """Remove the entries of these jobs; answers how many jobs had one. An entry whose time has passed is
        not shown any more, and is pruned."""
        store, gone = self.store, set[str]()
        if isinstance(store, Recording):
            for part in await self._history_parts(stream):
                entries = [entry for entry in await store.find_history(part, ids) if entry is not None]
                past = [msgspec.structs.replace(entry, content=b"", until_us=1) for entry in entries]
                if past:
                    await store.record_history(part, past, RingLimits())
                gone.update(entry.id for entry in entries)
        return len(gone)

    async def completed(self, stream: Stream, id: str, record: Record | None) -> Record | None:
        """The record of a job with what the history has of it. A job that is not over has no history."""
        if record is not None and (not record.status.over or stream.kind != "queue"):
            return record
        [entry] = await self.find_history(stream, [id])
        if record is None or record.status is JobStatus.UNKNOWN:
            return record if entry is None else record_of_entry(stream, entry) or record
        return with_history(record, entry)

    async def _history_parts(self, stream: Stream) -> list[Stream]:
        return list(dict.fromkeys((stream, *await self._layouts.parts(stream))))


def _merged(pages: Sequence[Page[HistoryEntry]], limit: int) -> Page[HistoryEntry]:
    """The latest entries of all parts. It ends where the first page that has more ends: what comes next in
    that part is not known."""
    entries = list(merge(*pages, key=lambda entry: entry.key, reverse=True))
    ends = [page.cursor for page in pages if page.cursor is not None]
    if ends:
        last = max((int(ended), id) for ended, _, id in (cursor.partition(":") for cursor in ends))
        shown = [entry for entry in entries if entry.key >= last]
        if len(shown) <= limit:
            return Page(tuple(shown), cursor_of(last))
        return Page(tuple(shown[:limit]), cursor_of(shown[limit - 1].key))
    if len(entries) <= limit:
        return Page(tuple(entries))
    return Page(tuple(entries[:limit]), cursor_of(entries[limit - 1].key))


def _latest(found: Sequence[HistoryEntry | None]) -> HistoryEntry | None:
    return max((entry for entry in found if entry is not None), key=lambda entry: entry.key, default=None)
