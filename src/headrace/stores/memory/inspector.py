"""The verbs that look at streams and steer them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from threading import Lock

from headrace.core.inspector import PURGED_END_RECORDS, Inspector
from headrace.core.messages.message import Stream
from headrace.core.records.answers import DeadAge, DeadFilter, ReplayAnswer, Wanted
from headrace.core.records.record import Counts, DeadLetter, JobStatus, Page, Record, WorkerInfo

from .shared_state import SharedState
from .views import counts_of, page_of_dead, page_of_records


class MemoryInspector(Inspector):
    _store: SharedState
    _lock: Lock
    _now_us: Callable[[], int]

    async def streams(self) -> list[Stream]:
        with self._lock:
            return [
                stream
                for stream, stream_state in self._store.stream_states.items()
                if stream_state.established
            ]

    async def counts(self, stream: Stream) -> Counts:
        with self._lock:
            return counts_of(self._store.stream_state(stream), self._now_us())

    async def messages(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[Record]:
        with self._lock:
            stream_state = self._store.stream_state(stream)
            return page_of_records(stream_state, status, task, cursor, limit, self._now_us())

    async def holders(self, stream: Stream, wanted: Sequence[Wanted]) -> list[str | None]:
        with self._lock:
            stream_state, now_us = self._store.stream_state(stream), self._now_us()
            return [stream_state.holder(each.id, each.key, now_us) for each in wanted]

    async def workers(self) -> list[WorkerInfo]:
        with self._lock:
            return self._store.workers(self._now_us())

    async def pause(self, stream: Stream, *, paused: bool) -> None:
        with self._lock:
            self._store.stream_state(stream).pause(paused=paused)

    async def purge(
        self, stream: Stream, *, ttl_us: int, limit: int, end_records: int = PURGED_END_RECORDS
    ) -> int:
        with self._lock:
            return self._store.stream_state(stream).purge(ttl_us, limit, end_records, self._now_us())

    async def dead_letters(
        self, stream: Stream, *, only: DeadFilter, cursor: str | None = None, limit: int = 100
    ) -> Page[DeadLetter]:
        with self._lock:
            return page_of_dead(self._store.stream_state(stream), only, cursor, limit)

    async def oldest_dead(self, stream: Stream, *, limit: int) -> list[DeadAge]:
        with self._lock:
            now_us, dead = self._now_us(), self._store.stream_state(stream).dead
            return [DeadAge(id, now_us - dead[id].since_us) for id in islice(dead, limit)]

    async def replay(self, stream: Stream, ids: Sequence[str]) -> list[ReplayAnswer]:
        with self._lock:
            stream_state, now_us = self._store.stream_state(stream), self._now_us()
            return [stream_state.replay(id, now_us) for id in ids]

    async def discard(self, stream: Stream, ids: Sequence[str]) -> int:
        with self._lock:
            stream_state = self._store.stream_state(stream)
            return sum(stream_state.discard(id) for id in ids)

    async def clean(self, stream: Stream, ids: Sequence[str], *, status: JobStatus, ttl_us: int) -> int:
        with self._lock:
            stream_state, now_us = self._store.stream_state(stream), self._now_us()
            return sum(stream_state.clean(id, status, ttl_us, now_us) for id in ids)

    async def release_key(self, stream: Stream, key: str) -> bool:
        with self._lock:
            return self._store.stream_state(stream).keys.free(key, self._now_us())

    async def run_now(self, stream: Stream, id: str) -> bool:
        with self._lock:
            return self._store.stream_state(stream).run_now(id, self._now_us())

    async def rewrite(self, stream: Stream, id: str, body: bytes) -> bool:
        with self._lock:
            return self._store.stream_state(stream).rewrite(id, body)
