"""The verbs about history. Three keys of a stream hold it: lua/shared/history.lua."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from headrace.core.encoding.decoding import text_of
from headrace.core.history.entry import HistoryEntry
from headrace.core.history.recording import FIRST, SCANNED, TRIMMED, Recording, RingLimits, cursor_of, key_of
from headrace.core.messages.message import Stream
from headrace.core.records.record import JobStatus, Page
from headrace.core.values.bounds import LATEST_US
from headrace.stores.redis.client.connection import Word
from headrace.stores.redis.entries import read_score
from headrace.stores.redis.scripts import RECORD_HISTORY
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import ScriptCall, StreamScripts

#: Bytes of entries in one script.
BYTES: Final = 1 << 20


class _Head(msgspec.Struct, frozen=True):
    """What is known of an entry without its content."""

    id: str
    ended_us: int
    until_us: int
    status: str
    task: str

    @property
    def key(self) -> tuple[int, str]:
        return self.ended_us, self.id

    def entry(self, content: bytes) -> HistoryEntry:
        return HistoryEntry(self.id, self.task, self.status, self.ended_us, content, self.until_us)


class RedisHistory(Recording):
    _store: RedisServer

    async def record_history(
        self, stream: Stream, entries: Sequence[HistoryEntry], limits: RingLimits
    ) -> None:
        for call in record_calls(self._store.queue(stream), entries, limits):
            await self._store.run(call)

    async def history(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[HistoryEntry]:
        after, key = key_of(cursor), self._key(stream)
        latest = LATEST_US if after == FIRST else after[0]
        command = ("ZRANGE", key, latest, 0, "BYSCORE", "REV", "LIMIT", 0, SCANNED, "WITHSCORES")
        row = await self._store.command(*command)
        ends = {text_of(id): read_score(score) for id, score in zip(row[::2], row[1::2], strict=True)}
        further = {id: ended_us for id, ended_us in ends.items() if (ended_us, id) < after}
        heads = [
            head
            for head in await self._heads(key, further)
            if status in (None, head.status) and task in (None, head.task)
        ]
        found = await self._contents(key, heads[: limit + 1])
        if len(heads) > limit:
            return Page(tuple(found[:limit]), cursor_of(heads[limit - 1].key))
        if len(ends) < SCANNED:
            return Page(tuple(found))
        last = min(((ended_us, id) for id, ended_us in further.items()), default=(after[0], ""))
        return Page(tuple(found), cursor_of(last))

    async def find_history(self, stream: Stream, ids: Sequence[str]) -> list[HistoryEntry | None]:
        key = self._key(stream)
        scores = await self._store.commands(*(("ZSCORE", key, id) for id in ids)) if ids else []
        ends = {id: read_score(score) for id, score in zip(ids, scores, strict=True) if score is not None}
        entries = await self._contents(key, await self._heads(key, ends))
        found = {entry.id: entry for entry in entries}
        return [found.get(id) for id in ids]

    async def _heads(self, key: bytes, ends: dict[str, int]) -> list[_Head]:
        """The heads of these ids, each with its end. Entries whose time has passed are left out."""
        if not ends:
            return []
        rows = await self._store.command("HMGET", key + b"/heads", *ends)
        now_us = self._store.now_us()
        heads = [_head(id, ended, row) for (id, ended), row in zip(ends.items(), rows, strict=True)]
        return [head for head in heads if head is not None and not 0 < head.until_us <= now_us]

    async def _contents(self, key: bytes, heads: Sequence[_Head]) -> list[HistoryEntry]:
        if not heads:
            return []
        rows = await self._store.command("HMGET", key + b"/contents", *(head.id for head in heads))
        return [head.entry(row) for head, row in zip(heads, rows, strict=True) if row is not None]

    def _key(self, stream: Stream) -> bytes:
        return self._store.queue(stream).keys.history


def record_calls(
    queue: StreamScripts, entries: Sequence[HistoryEntry], limits: RingLimits
) -> Iterator[ScriptCall]:
    """The calls that write entries. All trim; without entries there is one call."""
    bounds: tuple[Word, ...] = (
        "-" if limits.entries is None else limits.entries,
        "-" if limits.size is None else limits.size,
    )
    chunk: list[HistoryEntry] = []
    for entry in entries:
        if chunk and sum(each.size for each in chunk) + entry.size > BYTES:
            yield _call(queue, bounds, chunk)
            chunk = []
        chunk.append(entry)
    yield _call(queue, bounds, chunk)


def _call(queue: StreamScripts, bounds: tuple[Word, ...], entries: Sequence[HistoryEntry]) -> ScriptCall:
    words = [word for entry in entries for word in entry_words(entry)]
    return queue.call(RECORD_HISTORY, *bounds, len(entries) + TRIMMED, *words)


def entry_words(entry: HistoryEntry) -> tuple[Word, ...]:
    """An entry as arguments of a script."""
    times = entry.ended_us, entry.until_us, entry.size
    return entry.id, *times, entry.status, entry.task, entry.content


def _head(id: str, ended_us: int, row: Any) -> _Head | None:
    """None: it is gone, or another program has written something else."""
    until, _, rest = text_of(row or b"").partition(" ")
    _, _, rest = rest.partition(" ")
    status, _, task = rest.partition(" ")
    return _Head(id, ended_us, int(until), status, task) if until.isdecimal() else None
