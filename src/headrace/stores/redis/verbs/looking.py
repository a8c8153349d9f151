"""Implements the verbs that inspect and change stored messages (pause, purge, replay, discard) on Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core.encoding.decoding import text_of
from headrace.core.errors import after_a_part
from headrace.core.inspector import PURGED_END_RECORDS, Inspector
from headrace.core.messages.message import EXPIRED_TTL_US, Stream
from headrace.core.records.answers import DeadAge, DeadFilter, ReplayAnswer, Wanted
from headrace.core.records.record import Counts, DeadLetter, JobStatus, Page, Record, WorkerInfo
from headrace.stores.redis.keys import label_of, stream_of
from headrace.stores.redis.scripts import (
    CLEAN,
    COUNTS,
    DISCARD,
    DRAW,
    HOLDERS,
    ISSUE_DUE_EVENTS,
    OLDEST_DEAD,
    PAUSE,
    PURGE,
    RELEASE_KEY,
    REMOVE_STREAM,
    REPLAY,
    REWRITE,
    RUN_NOW,
)
from headrace.stores.redis.server.labels import labels_of
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.upkeep.workers import read_worker

from .listing import SCAN, Lister

#: What one script may hold: items, and bytes of the bodies it looks at.
ITEMS, BYTES = 200, 1 << 20


class RedisLooking(Inspector):
    def __init__(self, store: RedisServer) -> None:
        self._store = store
        self._lister = Lister(store)

    async def streams(self) -> list[Stream]:
        return [stream_of(label) for label in await labels_of(self._store)]

    async def remove_stream(self, stream: Stream) -> bool:
        is_group = stream.kind == "group"
        removed = bool(await self._store.run(self._store.queue(stream).call(REMOVE_STREAM)))
        if not removed and not is_group:
            return False
        listed = bool(await self._store.command("SREM", self._store.keys.streams, label_of(stream)))
        if self._store.tag_of(stream):
            await self._store.command("HDEL", self._store.keys.tags, stream.name)
        self._store.listed.discard(stream)
        if not is_group:
            await self._forget_passing_keys(stream)
        return removed if is_group else listed

    async def _forget_passing_keys(self, stream: Stream) -> None:
        """Delete the keys of a removed stream that have a time to live: end records, unique keys with a
        window, batches of producers."""
        queue, cursor = self._store.queue(stream), b"0"
        while True:
            scan = ("SCAN", cursor, "MATCH", queue.keys.prefix + b"[rup]:*", "COUNT", SCAN)
            cursor, keys = await self._store.command(*scan, queue=queue)
            if keys:
                await self._store.command("DEL", *keys, queue=queue)
            if cursor == b"0":
                return

    async def counts(self, stream: Stream) -> Counts:
        return counts_of(await self._store.run(self._store.queue(stream).call(COUNTS)))

    async def messages(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[Record]:
        return await self._lister.messages(stream, status, task, cursor, limit)

    async def holders(self, stream: Stream, wanted: Sequence[Wanted]) -> list[str | None]:
        queue, in_topic = self._store.queue(stream), stream.kind == "topic"
        words = [word for each in wanted for word in ("" if in_topic else each.id, each.key)]
        chunks = [words[start : start + 2 * ITEMS] for start in range(0, len(words), 2 * ITEMS)]
        replies = (
            await self._store.run_all([queue.call(HOLDERS, *chunk) for chunk in chunks]) if chunks else []
        )
        return [text_of(id) or None for reply in replies for id in reply]

    async def workers(self) -> list[WorkerInfo]:
        values: list[bytes] = await self._store.command("HVALS", self._store.keys.workers)
        now_us = self._store.now_us()
        workers = (read_worker(value) for value in values)
        return [seen.worker for seen in workers if seen is not None and seen.until_us > now_us]

    async def pause(self, stream: Stream, *, paused: bool) -> None:
        await self._store.run(self._store.queue(stream).call(PAUSE, int(paused)))

    async def purge(
        self, stream: Stream, *, ttl_us: int, limit: int, end_records: int = PURGED_END_RECORDS
    ) -> int:
        queue = self._store.queue(stream)
        while True:
            count: int = await self._store.run(
                queue.call(PURGE, ttl_us, min(limit, ITEMS), BYTES, end_records)
            )
            if count or stream.kind != "group":
                return count
            # Events that a group has not drawn yet count as queued: draw them first.
            _, drawn, _ = await self._store.run(
                queue.call(DRAW, limit, self._store.wants_order(stream), 0, 1)
            )
            if not drawn:
                return 0

    async def dead_letters(
        self, stream: Stream, *, only: DeadFilter, cursor: str | None = None, limit: int = 100
    ) -> Page[DeadLetter]:
        return await self._lister.dead_letters(stream, only, cursor, limit)

    async def oldest_dead(self, stream: Stream, *, limit: int) -> list[DeadAge]:
        now_us, dead = await self._store.run(self._store.queue(stream).call(OLDEST_DEAD, limit))
        pairs = zip(dead[::2], dead[1::2], strict=True)
        return [DeadAge(text_of(id), int(now_us) - int(float(died_us))) for id, died_us in pairs]

    async def replay(self, stream: Stream, ids: Sequence[str]) -> list[ReplayAnswer]:
        queue = self._store.queue(stream)
        answers: list[ReplayAnswer] = []
        while len(answers) < len(ids):
            chunk = ids[len(answers) : len(answers) + ITEMS]
            with after_a_part(answers):
                replies = await self._store.run(queue.call(REPLAY, BYTES, EXPIRED_TTL_US, *chunk))
            answers += [ReplayAnswer(reply.decode()) for reply in replies]
        return answers

    async def discard(self, stream: Stream, ids: Sequence[str]) -> int:
        queue, number = self._store.queue(stream), 0
        for start in range(0, len(ids), ITEMS):
            with after_a_part(number):
                number += await self._store.run(queue.call(DISCARD, *ids[start : start + ITEMS]))
        return number

    async def clean(self, stream: Stream, ids: Sequence[str], *, status: JobStatus, ttl_us: int) -> int:
        queue, number = self._store.queue(stream), 0
        for start in range(0, len(ids), ITEMS):
            with after_a_part(number):
                words = (status.value, ttl_us, *ids[start : start + ITEMS])
                number += await self._store.run(queue.call(CLEAN, *words))
        return number

    async def release_key(self, stream: Stream, key: str) -> bool:
        return bool(await self._store.run(self._store.queue(stream).call(RELEASE_KEY, key)))

    async def run_now(self, stream: Stream, id: str) -> bool:
        queue = self._store.queue(stream)
        if stream.kind == "topic":
            return bool((await self._store.run(queue.call(ISSUE_DUE_EVENTS, 1, BYTES, id)))[0])
        return bool(await self._store.run(queue.call(RUN_NOW, id)))

    async def rewrite(self, stream: Stream, id: str, body: bytes) -> bool:
        return bool(await self._store.run(self._store.queue(stream).call(REWRITE, id, body)))


def counts_of(answer: Sequence[Any], undrawn: int = 0) -> Counts:
    """Counts from the answer of lua/looking/counts.lua, without the events that a group has not drawn."""
    queued, running, scheduled, retrying, dead, due, oldest_us, paused = answer[:8]
    return Counts(queued - undrawn, running, scheduled, retrying, dead, due, oldest_us, paused == b"1")
