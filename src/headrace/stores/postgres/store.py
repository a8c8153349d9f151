"""The verbs of the store contract. Each is a transaction, one statement, or a read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic

from headrace.core.errors import BackendUnavailable, StoreMoved, after_a_part
from headrace.core.inspector import PURGED_END_RECORDS
from headrace.core.messages.claim import Report
from headrace.core.messages.message import Batch, Stream
from headrace.core.messages.outcome import Settlement, Verdict
from headrace.core.outbox.database import UserDatabase
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
from headrace.core.store import NO_CRASH_LIMITS, LeaseKeeper, Store
from headrace.stores.postgres.limits.limit_verbs import PostgresLimits
from headrace.stores.postgres.moving.moving_verbs import PostgresMoving
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import message_statements, topic_statements, upkeep_statements
from headrace.stores.postgres.topics.publish import (
    is_plain_publication,
    move_staged,
    publication_values,
    publish,
    stage,
    trim_beside,
)
from headrace.stores.postgres.topics.topic_verbs import PostgresTopics
from headrace.stores.postgres.verbs.claiming import PostgresClaims
from headrace.stores.postgres.verbs.history import PostgresHistory
from headrace.stores.postgres.verbs.outbox import PostgresOutboxes
from headrace.stores.postgres.verbs.removal import remove_stream
from headrace.stores.postgres.verbs.schedules import PostgresSchedules
from headrace.stores.postgres.verbs.settle import (
    check_spans,
    divided,
    done_values,
    have_lines,
    lined_values,
    report,
    settle,
    wake_ups_of,
)
from headrace.stores.sql.rows.record_rows import RecordListing
from headrace.stores.sql.settling import parts_of
from headrace.stores.sql.wake_ups import WakeUps

from .address import PostgresAddress
from .examination import PostgresExamination
from .lease_keeper import PostgresLeaseKeeper
from .topics import topic_records
from .user_database import PostgresOwnDatabase
from .verbs import looking, steering, traffic, upkeep, workers
from .verbs.append import Adding, answers_of, append, is_plain, joins_lines, may_wait, plain_values


class PostgresStore(
    PostgresClaims,
    PostgresTopics,
    PostgresSchedules,
    PostgresOutboxes,
    PostgresLimits,
    PostgresHistory,
    PostgresMoving,
    PostgresExamination,
    Store,
):
    def __init__(
        self, address: PostgresAddress, *, namespace: str, durability: str, clock: TimeSource
    ) -> None:
        super().__init__(address, namespace=namespace, durability=durability, clock=clock)
        self._clock_watch, self._clock_steps = ClockWatch(clock.elapsed_us), ClockSteps()

    def for_other_loop(self) -> PostgresStore:
        return PostgresStore(
            self._address, namespace=self._namespace, durability=self._durability, clock=self._clock
        )

    def user_database(self) -> UserDatabase:
        """An open store knows the id of its database already."""
        id = "" if self._session is None else self._session.database_id
        return PostgresOwnDatabase(self._address, namespace=self._namespace, clock=self._clock, id=id)

    # --- the path of a message ---------------------------------------------------------------------------

    async def declare_stream(self, stream: Stream, lease_us: int) -> int | None:
        stored = await self._read(lambda connection: steering.read_lease(connection, self._namespace, stream))
        if stored.us == lease_us:
            return None
        return await self._write(lambda transaction: steering.declare(transaction, stream, lease_us))

    async def remove_stream(self, stream: Stream) -> bool:
        return await self._write(lambda transaction: remove_stream(transaction, stream))

    async def append(self, batch: Batch) -> list[Answer]:
        if not batch.messages:
            return []
        if is_plain_publication(batch):
            return await self._publish(batch)
        if batch.stream.kind == "topic" and batch.limit is not None:
            return await self._add(batch, publish)
        if batch.stream.kind == "topic":
            return await self._publish_in_steps(batch)
        if not is_plain(batch):
            return await self._add(batch, append, lines=joins_lines(batch))
        session = self._use()
        values = plain_values(self._namespace, batch, session.offset_us, session.durability, session.channel)
        try:
            [row] = await session.call(message_statements.APPEND_PLAIN, values, may_wait=may_wait(batch))
        except StoreMoved:
            return await self._add(batch, append)  # a relay may append while the store drains
        stored, refused, ready = row
        if ready:
            session.notify(WakeUps({batch.stream}))
        return answers_of(batch, stored, refused)

    async def _add(self, batch: Batch, add: Adding, *, lines: bool = False) -> list[Answer]:
        waits = may_wait(batch)
        return await self._write(lambda transaction: add(transaction, batch), lines=lines, may_wait=waits)

    async def _publish(self, batch: Batch) -> list[Answer]:
        """Write to a log that exists in one round trip; the first event makes the log."""
        session = self._use()
        values = publication_values(self._namespace, batch, session.offset_us, session.durability)
        [row] = await session.call(topic_statements.PUBLISH_PLAIN, values)
        missing, stored, refused, written, trimmable = row
        if missing:
            return await self._publish_in_steps(batch)
        if written:
            session.notify(WakeUps({batch.stream}))
        if trimmable:
            with suppress(BackendUnavailable):  # the events are stored, and the next append trims
                await session.write(lambda transaction: trim_beside(transaction, batch), durable=False)
        return answers_of(batch, stored, refused)

    async def _publish_in_steps(self, batch: Batch) -> list[Answer]:
        """A repeat of the batch, after the second step failed, does that step again."""
        answers = await self._add(batch, stage)
        # When the store is sealed in between, the events wait beside the log, and move with it.
        with after_a_part(answers), suppress(StoreMoved):
            await self._write(lambda transaction: move_staged(transaction, batch))
        return answers

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        verdicts: list[Verdict] = []
        for part in parts_of(settlements):
            with after_a_part(verdicts):
                verdicts += await self._settle(part)
        return verdicts

    async def _settle(self, settlements: list[Settlement]) -> list[Verdict]:
        check_spans(settlements)
        verdicts: dict[int, Verdict] = {}
        steps = (self._settle_done, self._settle_lined, self._settle_any)
        for indexes, step in zip(divided(settlements), steps, strict=True):
            if indexes:
                with after_a_part(list(verdicts)):
                    settled = await step([settlements[index] for index in indexes])
                verdicts.update(zip(indexes, settled, strict=True))
        return [verdicts[index] for index in range(len(settlements))]

    async def _settle_done(self, settlements: list[Settlement]) -> list[Verdict]:
        session = self._use()
        values = done_values(settlements, session.offset_us, session.durability)
        return await self._settle_at_once(message_statements.SETTLE_DONE, values, settlements)

    async def _settle_lined(self, settlements: list[Settlement]) -> list[Verdict]:
        session = self._use()
        values = lined_values(self._namespace, settlements, session.offset_us, session.durability)
        return await self._settle_at_once(message_statements.SETTLE_LINED, values, settlements)

    async def _settle_at_once(
        self, statement: str, values: list[object], settlements: list[Settlement]
    ) -> list[Verdict]:
        """Settle successes in one round trip. A transaction does what the statement leaves."""
        session = self._use()
        [(is_left, settled, waited_for)] = await session.call(statement, values)
        if is_left:
            return await self._settle_any(settlements)
        session.notify(wake_ups_of(settlements, waited_for))
        verdicts = [Verdict.GONE] * len(settlements)
        for position in settled or ():
            verdicts[position - 1] = Verdict.KEPT
        others = [index for index, verdict in enumerate(verdicts) if verdict is Verdict.GONE]
        if others:  # they are over, or have got constraints since their claim
            late = await self._settle_any([settlements[index] for index in others])
            for index, verdict in zip(others, late, strict=True):
                verdicts[index] = verdict
        return verdicts

    async def _settle_any(self, settlements: list[Settlement]) -> list[Verdict]:
        return await self._write(
            lambda transaction: settle(transaction, settlements), lines=have_lines(settlements)
        )

    async def report_progress(self, reports: Sequence[Report]) -> None:
        await self._write(lambda transaction: report(transaction, reports), durable=False)

    def lease_keeper(self) -> LeaseKeeper:
        pooled = None if self._session is None else self._session.pool.pooled
        return PostgresLeaseKeeper(self._address, self._clock, pooled=pooled)

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
        session, watch, steps = self._use(), self._clock_watch, self._clock_steps
        asked_us = watch.elapsed_us()
        found = await session.read(
            lambda connection: upkeep.scan(connection, self._namespace, streams, session.offset_us)
        )
        steps.note(streams, watch.step_us(found.now_us, asked_us))
        restart = after_outage or steps.concern(streams)
        answer = Reclaimed()
        if restart or found.overdue or found.future:

            async def take(transaction: PostgresTransaction) -> Reclaimed:
                if restart:
                    await upkeep.restart_leases(transaction, streams)
                return await upkeep.reclaim(transaction, streams, limit, session.offset_us, crash_limits)

            answer = await session.write(take, durable=False)
        if restart:
            steps.applied(streams)
        return Reclaimed(answer.recovered, answer.more, stepped_us=steps.tell() if restart else 0)

    async def promote(self, streams: Sequence[Stream], *, limit: int) -> Promoted:
        session = self._use()
        found = await session.read(
            lambda connection: upkeep.next_due(connection, self._namespace, streams, session.offset_us)
        )
        if not found.is_something_due:
            return found.promoted(0)
        return await session.write(
            lambda transaction: upkeep.promote(transaction, streams, limit, session.offset_us), durable=False
        )

    async def prune(self, *, limit: int) -> int:
        session = self._use()
        if not await session.read(
            lambda connection: upkeep.is_something_past(connection, self._namespace, session.offset_us)
        ):
            return 0
        return await session.write(lambda transaction: upkeep.prune(transaction, limit), durable=False)

    async def heartbeat(
        self, worker: WorkerInfo, readers: Mapping[str, Sequence[Stream]], *, leaving: bool = False
    ) -> ControlState:
        if leaving:
            self._woken.difference_update(readers)
            await self._write(lambda transaction: workers.forget(transaction, worker), durable=False)
            return ControlState()
        session = self._use()
        streams = [stream for streams in readers.values() for stream in streams]
        values = workers.beat_values(self._namespace, worker, streams, session.offset_us)
        return workers.control_state(await session.call(upkeep_statements.BEAT, values))

    async def count_traffic(self, tallies: Sequence[TrafficCount]) -> None:
        await self._write(lambda transaction: traffic.count_traffic(transaction, tallies), durable=False)

    async def traffic(self, minutes: int) -> list[TrafficRecord]:
        return await self._read_at(
            lambda connection, now_us: traffic.traffic(connection, self._namespace, minutes, now_us)
        )

    def listen(self, hear: Callable[[ControlMessage], None]) -> Callable[[], None]:
        return self._use().waiters.listen(hear)

    # --- one message -------------------------------------------------------------------------------------

    async def get(self, stream: Stream, id: str) -> Record | None:
        return await self._read_at(
            lambda connection, now_us: topic_records.look(connection, self._namespace, stream, id, now_us)
        )

    async def wait_for_end(self, stream: Stream, id: str, timeout: float | None) -> Record | None:
        session = self._use()
        until = None if timeout is None else monotonic() + timeout
        name = (self._namespace, stream.kind, stream.name, id)
        with session.waiters.ending(stream, id) as waiter:
            while not session.closing:
                waiter.reset()
                # The step that ends the message then wakes this caller.
                if (True,) in await session.call(message_statements.AWAIT, name):
                    # A claim may have passed over the message while this step had its row locked.
                    session.notify(WakeUps({stream}))
                record = await self.get(stream, id)
                if record is None or record.status.over:
                    return record or Record(stream, id, JobStatus.UNKNOWN)
                left = session.waiters.interval if until is None else until - monotonic()
                if left <= 0:
                    return None
                await waiter.wait(min(left, session.waiters.interval))
        raise BackendUnavailable(f"the store {self.description} was closed while a caller waited for it")

    async def cancel(self, stream: Stream, id: str, *, ttl_us: int) -> CancelAnswer:
        return await self._write(lambda transaction: steering.cancel(transaction, stream, id, ttl_us))

    # --- look and steer ----------------------------------------------------------------------------------

    async def streams(self) -> list[Stream]:
        return await self._read(lambda connection: looking.list_streams(connection, self._namespace))

    async def counts(self, stream: Stream) -> Counts:
        return await self._read_at(
            lambda connection, now_us: topic_records.count(connection, self._namespace, stream, now_us)
        )

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
        return await self._read_at(
            lambda connection, now_us: looking.list_records(connection, self._namespace, listing, now_us)
        )

    async def holders(self, stream: Stream, wanted: Sequence[Wanted]) -> list[str | None]:
        return await self._read_at(
            lambda connection, now_us: looking.holders(connection, self._namespace, stream, wanted, now_us)
        )

    async def workers(self) -> list[WorkerInfo]:
        offset_us = self._use().offset_us
        return await self._read(
            lambda connection: workers.list_workers(connection, self._namespace, offset_us)
        )

    async def pause(self, stream: Stream, *, paused: bool) -> None:
        await self._write(lambda transaction: steering.pause(transaction, stream, paused=paused))

    async def purge(
        self, stream: Stream, *, ttl_us: int, limit: int, end_records: int = PURGED_END_RECORDS
    ) -> int:
        return await self._write(
            lambda transaction: steering.purge(transaction, stream, ttl_us, limit, end_records)
        )

    async def dead_letters(
        self, stream: Stream, *, only: DeadFilter, cursor: str | None = None, limit: int = 100
    ) -> Page[DeadLetter]:
        listing = RecordListing(stream, cursor, limit, JobStatus.DEAD, only)
        return await self._read(lambda connection: looking.list_dead(connection, self._namespace, listing))

    async def oldest_dead(self, stream: Stream, *, limit: int) -> list[DeadAge]:
        return await self._read_at(
            lambda connection, now_us: looking.oldest_dead(connection, self._namespace, stream, limit, now_us)
        )

    async def replay(self, stream: Stream, ids: Sequence[str]) -> list[ReplayAnswer]:
        return await self._write(lambda transaction: steering.replay(transaction, stream, ids))

    async def discard(self, stream: Stream, ids: Sequence[str]) -> int:
        return await self._write(lambda transaction: steering.discard(transaction, stream, ids))

    async def clean(self, stream: Stream, ids: Sequence[str], *, status: JobStatus, ttl_us: int) -> int:
        return await self._write(lambda transaction: steering.clean(transaction, stream, ids, status, ttl_us))

    async def release_key(self, stream: Stream, key: str) -> bool:
        return await self._write(lambda transaction: steering.release_key(transaction, stream, key))

    async def run_now(self, stream: Stream, id: str) -> bool:
        return await self._write(lambda transaction: steering.run_now(transaction, stream, id))

    async def rewrite(self, stream: Stream, id: str, body: bytes) -> bool:
        return await self._write(lambda transaction: steering.rewrite(transaction, stream, id, body))
