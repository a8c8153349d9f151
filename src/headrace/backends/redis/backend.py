"""The store on one Redis or Valkey server: the verbs, each handed to the part that knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count

from headrace.core.backend import (
    Answer,
    Backend,
    CancelAnswer,
    Order,
    PauseOrder,
    Promoted,
    Reclaimed,
    Renewer,
    Standing,
)
from headrace.core.claim import Claim, Report
from headrace.core.errors import BackendUnavailable
from headrace.core.message import Batch, Source, Stream
from headrace.core.outcome import Settlement, Verdict
from headrace.core.record import Record, WorkerInfo

from .announcements import Announcements
from .appending import answers_of, calls_of
from .connection import Link
from .durability import Confirmation, check_durability, confirm
from .entries import record_of
from .inspector import WORKER_TTL, RedisInspector, Seen, decode_seen, encode_seen
from .keys import label_of
from .reader import Reader, wanted
from .recovery import Recoverer
from .renewer import RedisRenewer
from .replies import access_error_of
from .reporting import report_calls
from .scheduling import RedisScheduling
from .scripts import AGE, CANCEL, ENSURE, LOOK, PROMOTE, RETIRE, SWEEP
from .settling import steps_of, verdicts_of
from .store import Store

#: Bytes of bodies that one step of promotion moves.
PROMOTE_BYTES = 1 << 20

#: Milliseconds after which the name of a consumer that holds nothing is forgotten.
CONSUMER_IDLE = 3_600_000


class RedisBackend(RedisInspector, RedisScheduling, Backend):
    def __init__(self, store: Store, confirmation: Confirmation | None = None) -> None:
        super().__init__(store)
        self._confirmation = confirmation
        # An append and its confirmation have a connection of their own: nobody else shall wait for that.
        self._append_link = Link(store.address) if confirmation else store.link
        self._announcements = Announcements(store)
        self._recoverer = Recoverer(store)
        self._readers: dict[str, Reader] = {}
        self._paused: set[Stream] = set()
        self._turns = count(1)
        self._silence: Callable[[], None] | None = None

    @property
    def description(self) -> str:
        return f"{self._store.server} at {self._store.address}"

    async def open(self) -> None:
        try:
            await check_durability(self._confirmation, await self._store.link.connected())
            await self._announcements.open()
        except BackendUnavailable as error:
            self._store.link.drop()
            raise access_error_of(error) or error from error
        except BaseException:
            self._store.link.drop()
            raise
        self._silence = self._announcements.listen(self._hear)

    async def close(self) -> None:
        if self._silence is not None:
            self._silence()
        await asyncio.gather(*[reader.stop() for reader in self._readers.values()])
        self._readers.clear()
        await self._announcements.close()
        self._append_link.drop()
        self._store.link.drop()

    def _hear(self, order: Order) -> None:
        if isinstance(order, PauseOrder):
            self._set_paused(self._paused | {order.stream} if order.paused else self._paused - {order.stream})

    def _set_paused(self, paused: set[Stream]) -> None:
        if paused != self._paused:
            # The readers share the set.
            self._paused.clear()
            self._paused.update(paused)
            for reader in self._readers.values():
                reader.stir()

    # --- the path of a message ---------------------------------------------------------------------------

    async def ensure(self, source: Source, lease_us: int) -> int | None:
        await self._list(source.stream)
        previous = await self._store.run(self._store.queue(source.stream).call(ENSURE, lease_us))
        return None if previous is None or int(previous) == lease_us else int(previous)

    async def append(self, batch: Batch) -> list[Answer]:
        if not batch.messages:
            return []
        if batch.stream not in self._store.listed:
            await self._list(batch.stream)
        calls = calls_of(self._store.queue(batch.stream), batch)
        answers = answers_of(batch, await self._store.run_all(calls, self._append_link))
        if self._confirmation is not None:
            await confirm(self._confirmation, self._append_link, answers)
        return answers

    async def _list(self, stream: Stream) -> None:
        await self._store.command("SADD", self._store.keys.streams, label_of(stream))
        self._store.listed.add(stream)

    async def claim(
        self, sources: Sequence[Source], *, consumer: str, limit: int, suspects: int, wait: float
    ) -> list[Claim]:
        queues = [self._store.queue(source.stream) for source in sources]
        reader = self._reader(consumer)
        return await reader.claim(
            wanted(queues, limit=limit, suspects=suspects, wait=wait, turn=next(self._turns))
        )

    def wake(self, consumer: str) -> None:
        self._reader(consumer).wake()

    def _reader(self, consumer: str) -> Reader:
        reader = self._readers.get(consumer)
        if reader is None:
            reader = self._readers[consumer] = Reader(self._store, consumer, self._paused)
        return reader

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        steps = steps_of(settlements, self._store.queue)
        answers = await self._store.run_all([step.call for step in steps]) if steps else []
        return verdicts_of(steps, answers, len(settlements))

    async def report(self, reports: Sequence[Report]) -> None:
        calls = report_calls(reports, self._store.queue)
        if calls:
            await self._store.run_all(calls)

    def renewer(self) -> Renewer:
        return RedisRenewer(self._store)

    # --- upkeep ------------------------------------------------------------------------------------------

    async def reclaim(self, sources: Sequence[Source], *, limit: int) -> Reclaimed:
        return await self._recoverer.reclaim(sources, limit)

    async def promote(self, sources: Sequence[Source], *, limit: int) -> Promoted:
        promoted, soonest = 0, None
        for source in sources:
            queue = self._store.queue(source.stream)
            number, next_in = await self._store.run(queue.call(PROMOTE, limit - promoted, PROMOTE_BYTES))
            promoted += number
            if next_in >= 0:
                soonest = next_in if soonest is None else min(soonest, next_in)
        return Promoted(promoted, soonest)

    async def prune(self, *, limit: int) -> int:
        """Marks and producers pass by themselves here; workers and the names of consumers do not."""
        workers = await self._store.command("HGETALL", self._store.keys.workers)
        now_us = self._store.now_us()
        gone = [
            consumer
            for consumer, value in zip(workers[::2], workers[1::2], strict=True)
            if decode_seen(value).until_us <= now_us
        ][:limit]
        if gone:
            await self._store.command("HDEL", self._store.keys.workers, *gone)
        calls = [
            self._store.queue(stream).call(SWEEP, CONSUMER_IDLE, limit)
            for stream in await self.streams()
            if stream.kind == "queue"
        ]
        if calls:
            await self._store.run_all(calls)
        return len(gone)

    async def beat(self, worker: WorkerInfo) -> Standing:
        seen = encode_seen(Seen(self._store.now_us() + WORKER_TTL, worker))
        streams = [Stream("queue", name) for name in worker.queues]
        _, *rows = await self._store.commands(
            ("HSET", self._store.keys.workers, worker.consumer, seen),
            *(("HMGET", self._store.queue(stream).keys.meta, "paused", "lease") for stream in streams),
        )
        known = dict(zip(streams, rows, strict=True))
        paused = frozenset(stream for stream, (flag, _) in known.items() if flag == b"1")
        self._set_paused(self._paused - known.keys() | paused)
        return Standing(paused, {stream: int(lease) for stream, (_, lease) in known.items() if lease})

    async def retire(self, sources: Sequence[Source], consumer: str) -> None:
        reader = self._readers.pop(consumer, None)
        if reader is not None:
            await reader.stop()
        await self._store.command("HDEL", self._store.keys.workers, consumer)
        if sources:
            queues = [self._store.queue(source.stream) for source in sources]
            await self._store.run_all([queue.call(RETIRE, consumer) for queue in queues])

    def listen(self, hear: Callable[[Order], None]) -> Callable[[], None]:
        return self._announcements.listen(hear)

    # --- one message -------------------------------------------------------------------------------------

    async def look(self, stream: Stream, id: str) -> Record | None:
        rows = await self._store.run(self._store.queue(stream).call(LOOK, id))
        return record_of(stream, rows[0]) if rows else None

    async def ended(self, stream: Stream, id: str, timeout: float | None) -> Record | None:
        return await self._announcements.ended(stream, id, timeout)

    async def cancel(self, stream: Stream, id: str, *, mark_us: int) -> CancelAnswer:
        answer: bytes = await self._store.run(self._store.queue(stream).call(CANCEL, id, mark_us))
        return CancelAnswer(answer.decode())

    # --- for tests that move time ------------------------------------------------------------------------

    async def _age_pending(self, seconds: float) -> None:
        """Make every held message look that much older: leases run on the server's own clock."""
        for stream in await self.streams():
            await self._store.run(self._store.queue(stream).call(AGE, round(seconds * 1000)))
