"""The look-and-steer verbs on Redis."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.backend import DeadFilter, Inspector, ReplayAnswer
from headrace.core.clock import SECOND
from headrace.core.message import Stream
from headrace.core.record import Counts, DeadLetter, JobStatus, Page, Record, WorkerInfo

from .keys import stream_of
from .listing import Lister
from .scripts import COUNTS, DISCARD, HASTEN, PAUSE, PURGE, REPLAY, REWRITE
from .store import Store

#: What one script may hold: items, and bytes of the bodies it looks at.
ITEMS, BYTES = 200, 1 << 20

#: How long a worker is remembered after it announced itself, in microseconds.
WORKER_TTL = 60 * SECOND


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A worker, and until when it is remembered."""

    until_us: int
    worker: WorkerInfo


encode_seen = msgspec.msgpack.Encoder().encode
decode_seen = msgspec.msgpack.Decoder(Seen).decode


class RedisInspector(Inspector):
    def __init__(self, store: Store) -> None:
        self._store = store
        self._lister = Lister(store)

    async def streams(self) -> list[Stream]:
        labels: list[bytes] = await self._store.command("SMEMBERS", self._store.keys.streams)
        return [stream_of(label) for label in sorted(label.decode() for label in labels)]

    async def counts(self, stream: Stream) -> Counts:
        answer = await self._store.run(self._store.queue(stream).call(COUNTS))
        queued, running, scheduled, retrying, dead, due, oldest_us, paused = answer
        return Counts(queued, running, scheduled, retrying, dead, due, oldest_us, paused == b"1")

    async def records(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[Record]:
        return await self._lister.records(stream, status, task, cursor, limit)

    async def workers(self) -> list[WorkerInfo]:
        values: list[bytes] = await self._store.command("HVALS", self._store.keys.workers)
        now_us = self._store.now_us()
        return [seen.worker for value in values if (seen := decode_seen(value)).until_us > now_us]

    async def pause(self, stream: Stream, *, paused: bool) -> None:
        await self._store.run(self._store.queue(stream).call(PAUSE, int(paused)))

    async def purge(self, stream: Stream, *, mark_us: int, limit: int) -> int:
        call = self._store.queue(stream).call(PURGE, mark_us, min(limit, ITEMS), BYTES)
        count: int = await self._store.run(call)
        return count

    async def dead(
        self, stream: Stream, *, only: DeadFilter, cursor: str | None = None, limit: int = 100
    ) -> Page[DeadLetter]:
        return await self._lister.dead(stream, only, cursor, limit)

    async def replay(self, stream: Stream, ids: Sequence[str]) -> list[ReplayAnswer]:
        queue = self._store.queue(stream)
        answers: list[ReplayAnswer] = []
        while len(answers) < len(ids):
            chunk = ids[len(answers) : len(answers) + ITEMS]
            replies = await self._store.run(queue.call(REPLAY, BYTES, *chunk))
            answers += [ReplayAnswer(reply.decode()) for reply in replies]
        return answers

    async def discard(self, stream: Stream, ids: Sequence[str]) -> int:
        queue, number = self._store.queue(stream), 0
        for start in range(0, len(ids), ITEMS):
            number += await self._store.run(queue.call(DISCARD, *ids[start : start + ITEMS]))
        return number

    async def hasten(self, stream: Stream, id: str) -> bool:
        return bool(await self._store.run(self._store.queue(stream).call(HASTEN, id)))

    async def rewrite(self, stream: Stream, id: str, body: bytes) -> bool:
        return bool(await self._store.run(self._store.queue(stream).call(REWRITE, id, body)))
