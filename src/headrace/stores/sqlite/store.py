"""The verbs of the store contract. Each is a step for the writer's thread or for the reader's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TypeVar

import msgspec

from headrace.core.inspector import PURGED_END_RECORDS
from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.message import Batch, Stream
from headrace.core.messages.outcome import Settlement, Verdict
from headrace.core.records.answers import (
    Answer,
    CancelAnswer,
    DeadAge,
    DeadFilter,
    Promoted,
    Reclaimed,
    ReplayAnswer,
    Wanted,
)
from headrace.core.records.control import ControlMessage, ControlState
from headrace.core.records.record import Counts, DeadLetter, JobStatus, Page, Record, WorkerInfo
from headrace.core.records.traffic import TrafficCount, TrafficRecord
from headrace.core.rules.clock_steps import ClockSteps
from headrace.core.runtime.clock import ClockWatch, TimeSource
from headrace.core.store import NO_CRASH_LIMITS, LeaseKeeper, PartitionedStore
from headrace.stores.sql.claim_query import ClaimQuery
from headrace.stores.sql.rows.record_rows import RecordListing
from headrace.stores.sql.settling import hand_back, parts_of
from headrace.stores.sqlite.connection.connection import Connection, Synchronous
from headrace.stores.sqlite.connection.filesystem import check_folder
from headrace.stores.sqlite.limits.limit_verbs import SqliteLimits
from headrace.stores.sqlite.moving.moving_verbs import SqliteMoving
from headrace.stores.sqlite.threads.open_file import OpenFile
from headrace.stores.sqlite.threads.step import NothingToWrite, WriteStep
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.topics.publish import publish
from headrace.stores.sqlite.topics.topic_verbs import SqliteTopics
from headrace.stores.sqlite.verbs.append import append
from headrace.stores.sqlite.verbs.claim import claim, is_something_ready
from headrace.stores.sqlite.verbs.history import SqliteHistory
from headrace.stores.sqlite.verbs.layouts import SqliteLayouts
from headrace.stores.sqlite.verbs.outbox import SqliteOutboxes
from headrace.stores.sqlite.verbs.removal import remove_stream
from headrace.stores.sqlite.verbs.schedules import SqliteSchedules
from headrace.stores.sqlite.verbs.settle import report, settle

from .examination import SqliteExamination, warn_of_risks
from .lease_keeper import SqliteLeaseKeeper
from .topics import topic_records
from .verbs import looking, steering, traffic, upkeep, workers

T = TypeVar("T")

#: The approximate bytes of a message in the file without its body, with its indices.
SIZE_OF_ROW = 500


class SqliteStore(
    SqliteTopics,
    SqliteSchedules,
    SqliteLayouts,
    SqliteOutboxes,
    SqliteLimits,
    SqliteHistory,
    SqliteMoving,
    SqliteExamination,
    PartitionedStore,
):
    def __init__(self, path: Path, *, namespace: str, synchronous: Synchronous, clock: TimeSource) -> None:
        super().__init__(path, namespace=namespace, clock=clock)
        self._synchronous: Synchronous = synchronous
        self._turns = count(1)
        self._clock_watch, self._clock_steps = ClockWatch(clock.elapsed_us), ClockSteps()

    @property
    def description(self) -> str:
        return f"SQLite file {self._path}"

    def for_other_loop(self) -> SqliteStore:
        return SqliteStore(
            self._path, namespace=self._namespace, synchronous=self._synchronous, clock=self._clock
        )

    async def open(self) -> None:
        if self._open_file is not None:
            if self._open_file.on_own_loop:
                return
            self._open_file.stop()
        check_folder(self._path)
        open_file = OpenFile(
            self._path, namespace=self._namespace, synchronous=self._synchronous, clock=self._clock
        )
        self._open_file = open_file
        try:
            await open_file.open()
        except BaseException:
            self._open_file = None
            raise
        warn_of_risks(self._path)

    async def close(self) -> None:
        open_file, self._open_file = self._open_file, None
        if open_file is None:
            return
        if open_file.on_own_loop:
            await open_file.close()
        else:
            open_file.stop()  # its event loop can no longer wait

    # --- the path of a message ---------------------------------------------------------------------------

    async def declare_stream(self, stream: Stream, lease_us: int) -> int | None:
        def same(connection: Connection) -> NothingToWrite[int | None] | None:
            is_same = steering.read_lease(connection, self._namespace, stream).us == lease_us
            return NothingToWrite(None) if is_same else None

        return await self._write(
            lambda transaction: steering.declare_stream(transaction, stream, lease_us), shortcut=same
        )

    async def remove_stream(self, stream: Stream) -> bool:
        return await self._write(lambda transaction: remove_stream(transaction, stream))

    async def append(self, batch: Batch) -> list[Answer]:
        add = publish if batch.stream.kind == "topic" else append
        size = sum([len(message.body) for message in batch.messages]) + SIZE_OF_ROW * len(batch.messages)
        step = WriteStep(partial(add, batch=batch), weight=len(batch.messages), size=size)
        open_file = self._use()
        if len(batch.messages) > 1 or not open_file.write_at_once(step):
            return await open_file.write(step)
        answers = step.future.result()
        await asyncio.sleep(0)  # other tasks waited during the commit, and run now
        return answers

    async def claim(
        self,
        streams: Sequence[Stream],
        *,
        consumer: str,
        limit: int,
        suspects: int,
        children: int | None = None,
        constrained: int | None = None,
        wait: float,
    ) -> list[Claim]:
        open_file = self._use()
        children = limit if children is None else children
        request = ClaimQuery(
            *(streams, consumer, limit, suspects, next(self._turns), children, self._wants_order),
            limit if constrained is None else constrained,
        )
        until = monotonic() + wait
        with open_file.waiters.claiming(
            streams,
            consumer,
            suspects=suspects > 0,
            children=children > 0,
            constrained=request.constrained > 0,
        ) as waiter:
            while not open_file.closing:
                waiter.reset()
                claims = await self._claim_apart(open_file, request)
                left = until - monotonic()
                if self._was_woken(consumer) or claims or left <= 0:
                    return claims
                await waiter.wait(left)
        return []

    async def _claim_apart(self, open_file: OpenFile, request: ClaimQuery) -> list[Claim]:
        async for claims in self._apart(request.streams, partial(self._try_to_claim, open_file, request)):
            if claims:
                return claims
        return []

    async def _try_to_claim(
        self, open_file: OpenFile, request: ClaimQuery, streams: Sequence[Stream]
    ) -> list[Claim]:
        request = msgspec.structs.replace(request, streams=streams)

        def nothing(connection: Connection) -> NothingToWrite[list[Claim]] | None:
            ready = request.limit > 0 and is_something_ready(
                connection,
                self._namespace,
                request.streams,
                suspects=request.suspects > 0,
                children=request.children > 0,
                constrained=request.constrained > 0,
            )
            return None if ready else NothingToWrite([])

        step = WriteStep(
            partial(claim, request=request), shortcut=nothing, durable=False, weight=request.limit
        )
        try:
            return await asyncio.shield(open_file.write(step))
        except asyncio.CancelledError:
            step.future.add_done_callback(self._give_back)
            raise

    def _give_back(self, claimed: asyncio.Future[list[Claim]]) -> None:
        """Hand back the claims of a caller that was cancelled and will never receive them."""
        open_file = self._open_file
        if claimed.cancelled() or claimed.exception() or open_file is None or open_file.closing:
            return  # Their leases expire.
        settlements = [hand_back(claim) for claim in claimed.result()]
        step = WriteStep(lambda transaction: settle(transaction, settlements), durable=False)
        open_file.write(step).add_done_callback(lambda done: done.cancelled() or done.exception())

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        verdicts: list[Verdict] = []
        for part in parts_of(settlements):
            verdicts += await self._write(partial(settle, settlements=part), urgent=False, weight=len(part))
        return verdicts

    async def report_progress(self, reports: Sequence[Report]) -> None:
        await self._write(lambda transaction: report(transaction, reports), durable=False)

    def lease_keeper(self) -> LeaseKeeper:
        return SqliteLeaseKeeper(self._path, self._clock)

    # --- upkeep ------------------------------------------------------------------------------------------

    async def reclaim(
        self,
        streams: Sequence[Stream],
        *,
        limit: int,
        every_us: int = 0,
        after_outage: bool = False,
        crash_limits: Mapping[Stream, int] = NO_CRASH_LIMITS,
    ) -> Reclaimed:
        watch, steps = self._clock_watch, self._clock_steps
        steps.note(streams, watch.step_us(self._clock.now_us(), watch.elapsed_us()))
        restart = after_outage or steps.concern(streams)

        async def reclaim(streams: Sequence[Stream]) -> Reclaimed:
            def nothing(connection: Connection) -> NothingToWrite[Reclaimed] | None:
                now_us = self._clock.now_us()
                overdue = upkeep.is_something_overdue(connection, self._namespace, streams, now_us)
                return None if overdue or restart else NothingToWrite(Reclaimed())

            def take(transaction: Transaction) -> Reclaimed:
                if restart:
                    upkeep.restart_leases(transaction, streams)
                return upkeep.reclaim(transaction, streams, limit, crash_limits)

            return await self._write(take, shortcut=nothing, durable=False, weight=limit)

        answers = [answer async for answer in self._apart(streams, reclaim)]
        if restart:
            steps.applied(streams)
        return upkeep.reclaimed(answers, steps.tell() if restart else 0)

    async def promote(self, streams: Sequence[Stream], *, limit: int) -> Promoted:
        async def promote(streams: Sequence[Stream]) -> Promoted:
            def nothing(connection: Connection) -> NothingToWrite[Promoted] | None:
                now_us = self._clock.now_us()
                due_us = upkeep.next_due(connection, self._namespace, streams, now_us)
                later = due_us is None or due_us > now_us
                return NothingToWrite(upkeep.promoted(0, due_us, now_us)) if later else None

            return await self._write(
                lambda transaction: upkeep.promote(transaction, streams, limit),
                shortcut=nothing,
                durable=False,
                weight=limit,
            )

        return upkeep.all_promoted([answer async for answer in self._apart(streams, promote)])

    async def prune(self, *, limit: int) -> int:
        def nothing(connection: Connection) -> NothingToWrite[int] | None:
            past = upkeep.is_something_past(connection, self._namespace, self._clock.now_us())
            return None if past else NothingToWrite(0)

        return await self._write(
            lambda transaction: upkeep.prune(transaction, limit),
            shortcut=nothing,
            durable=False,
            weight=limit,
        )

    async def heartbeat(
        self, worker: WorkerInfo, readers: Mapping[str, Sequence[Stream]], *, leaving: bool = False
    ) -> ControlState:
        if leaving:
            self._woken.difference_update(readers)
            await self._write(lambda transaction: workers.forget(transaction, worker), durable=False)
            return ControlState()
        streams = [stream for streams in readers.values() for stream in streams]
        return await self._write(
            lambda transaction: workers.beat(transaction, worker, streams), durable=False
        )

    async def count_traffic(self, tallies: Sequence[TrafficCount]) -> None:
        await self._write(lambda transaction: traffic.count_traffic(transaction, tallies), durable=False)

    async def traffic(self, minutes: int) -> list[TrafficRecord]:
        return await self._read(traffic.traffic, minutes, self._clock.now_us())

    def listen(self, hear: Callable[[ControlMessage], None]) -> Callable[[], None]:
        return self._use().waiters.listen(hear)

    # --- one message -------------------------------------------------------------------------------------

    async def get(self, stream: Stream, id: str) -> Record | None:
        return await self._read(topic_records.look, stream, id, self._clock.now_us())

    async def wait_for_end(self, stream: Stream, id: str, timeout: float | None) -> Record | None:
        open_file = self._use()
        until = None if timeout is None else monotonic() + timeout
        with open_file.waiters.ending(stream, id) as waiter:
            while True:
                waiter.reset()
                record = await self.get(stream, id)
                if record is None or record.status.over:
                    return record or Record(stream, id, JobStatus.UNKNOWN)
                if not await waiter.wait(None if until is None else max(0.0, until - monotonic())):
                    return None

    async def cancel(self, stream: Stream, id: str, *, ttl_us: int) -> CancelAnswer:
        return await self._write(lambda transaction: steering.cancel(transaction, stream, id, ttl_us))

    # --- look and steer ----------------------------------------------------------------------------------

    async def streams(self) -> list[Stream]:
        return await self._read(looking.list_streams)

    async def counts(self, stream: Stream) -> Counts:
        return await self._read(topic_records.count, stream, self._clock.now_us())

    async def messages(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[Record]:
        listing = RecordListing(stream, cursor, limit, status, DeadFilter(task))
        return await self._read(looking.list_records, listing, self._clock.now_us())

    async def holders(self, stream: Stream, wanted: Sequence[Wanted]) -> list[str | None]:
        return await self._read(looking.holders, stream, wanted, self._clock.now_us())

    async def workers(self) -> list[WorkerInfo]:
        return await self._read(workers.list_workers, self._clock.now_us())

    async def pause(self, stream: Stream, *, paused: bool) -> None:
        await self._write(lambda transaction: steering.pause(transaction, stream, paused=paused))

    async def purge(
        self, stream: Stream, *, ttl_us: int, limit: int, end_records: int = PURGED_END_RECORDS
    ) -> int:
        return await self._write(
            lambda transaction: steering.purge(transaction, stream, ttl_us, limit, end_records), weight=limit
        )

    async def dead_letters(
        self, stream: Stream, *, only: DeadFilter, cursor: str | None = None, limit: int = 100
    ) -> Page[DeadLetter]:
        listing = RecordListing(stream, cursor, limit, JobStatus.DEAD, only)
        return await self._read(looking.list_dead, listing)

    async def oldest_dead(self, stream: Stream, *, limit: int) -> list[DeadAge]:
        return await self._read(looking.oldest_dead, stream, limit, self._clock.now_us())

    async def replay(self, stream: Stream, ids: Sequence[str]) -> list[ReplayAnswer]:
        return await self._write(
            lambda transaction: steering.replay(transaction, stream, ids), weight=len(ids)
        )

    async def discard(self, stream: Stream, ids: Sequence[str]) -> int:
        return await self._write(
            lambda transaction: steering.discard(transaction, stream, ids), weight=len(ids)
        )

    async def clean(self, stream: Stream, ids: Sequence[str], *, status: JobStatus, ttl_us: int) -> int:
        return await self._write(
            lambda transaction: steering.clean(transaction, stream, ids, status, ttl_us), weight=len(ids)
        )

    async def release_key(self, stream: Stream, key: str) -> bool:
        return await self._write(lambda transaction: steering.release_key(transaction, stream, key))

    async def run_now(self, stream: Stream, id: str) -> bool:
        return await self._write(lambda transaction: steering.run_now(transaction, stream, id))

    async def rewrite(self, stream: Stream, id: str, body: bytes) -> bool:
        return await self._write(lambda transaction: steering.rewrite(transaction, stream, id, body))
