"""Implements the store on Redis or Valkey: passes each verb to the module that carries it out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from headrace.core.errors import ConfigurationError, Moved, NotConfirmed
from headrace.core.history.recording import RingLimits
from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.message import Batch, Stream
from headrace.core.messages.outcome import Settlement, Verdict
from headrace.core.moving.seal import shown_target
from headrace.core.records.answers import Answer, CancelAnswer, Promoted, Reclaimed
from headrace.core.records.control import ControlMessage, ControlState, MissedNotice, PauseNotice
from headrace.core.records.record import WORKER_TTL_US, Record, WorkerInfo
from headrace.core.rules.layout import decode_layout
from headrace.core.rules.producers import OUTBOX
from headrace.core.rules.rotation import Rotation
from headrace.core.runtime.clock import SECOND
from headrace.core.store import NO_CRASH_LIMITS, LeaseKeeper, PartitionedStore
from headrace.stores.redis.client.connection import Wire
from headrace.stores.redis.health.examination import RedisExamination
from headrace.stores.redis.intake.claim_request import wanted
from headrace.stores.redis.intake.cluster_readers import ClusterReaders
from headrace.stores.redis.intake.reader import ClaimReader
from headrace.stores.redis.moving.moving_verbs import RedisMoving
from headrace.stores.redis.server.durability import Confirmation, check_durability, confirm
from headrace.stores.redis.server.faults import (
    CommandRefused,
    OutOfMemory,
    is_damaged,
    is_out_of_memory,
    is_per_chunk,
)
from headrace.stores.redis.server.format import check_format
from headrace.stores.redis.server.notices import Notices
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.topics.topic_reader import LogReader
from headrace.stores.redis.topics.topic_verbs import RedisTopics
from headrace.stores.redis.upkeep.lease_keeper import RedisLeaseKeeper
from headrace.stores.redis.upkeep.promotion import promote
from headrace.stores.redis.upkeep.recovery import Recoverer
from headrace.stores.redis.upkeep.traffic import RedisTraffic
from headrace.stores.redis.upkeep.workers import (
    WorkerEntry,
    encode_worker,
    forget_leaving_worker,
    forget_silent_workers,
)
from headrace.stores.redis.verbs.announcements import Announcements
from headrace.stores.redis.verbs.append import TAKEN, answers_of, call_of_one, calls_of
from headrace.stores.redis.verbs.history import RedisHistory, record_calls
from headrace.stores.redis.verbs.layouts import RedisLayouts
from headrace.stores.redis.verbs.limits import FiguresRead, RedisLimits
from headrace.stores.redis.verbs.outbox import RedisOutboxes
from headrace.stores.redis.verbs.progress import report_calls
from headrace.stores.redis.verbs.schedules import RedisScheduling
from headrace.stores.redis.verbs.settle import constrained_since, steps_of, verdicts_of, with_constraints

from .entries import record_of
from .keys import label_of
from .scripts import APPEND_ONE, CANCEL, DECLARE_STREAM, FORGET_CONSUMERS, GET
from .stream_scripts import StreamScripts

#: Milliseconds after which the name of a consumer that holds nothing is forgotten.
CONSUMER_IDLE = 3_600_000

#: Microseconds for which one look at the consumers of a stream is enough, for all workers together. It is
#: shorter than the time between two looks of one worker.
SWEEP_EVERY = 10 * SECOND


class RedisStore(
    RedisExamination,
    RedisHistory,
    RedisLayouts,
    RedisLimits,
    RedisMoving,
    RedisOutboxes,
    RedisScheduling,
    RedisTopics,
    RedisTraffic,
    PartitionedStore,
):
    appends_at_once = 2  # one is prepared while the server works on the other

    def __init__(self, store: RedisServer, confirmation: Confirmation | None = None) -> None:
        super().__init__(store)
        self._confirmation = confirmation
        # An append and its confirmation have their own connection, so that other requests do not wait for it.
        self._append_way = store.new_way(confirmation.greet) if confirmation else None
        self._announcements = Announcements(store, self._hear_of_lanes, self._hear_of_work)
        self._recoverer = Recoverer(store)
        self._readers: dict[str, ClaimReader | ClusterReaders] = {}
        self._tails: dict[str, LogReader] = {}
        self._paused: set[Stream] = set()
        self._leases: dict[Stream, int] = {}  # of the streams that were declared here
        self._figures = {}
        self._figures_read = FiguresRead()
        self.limits_each_stream = store.is_cluster
        self._notices = Notices()
        self._turns = count(1)
        self._looks: Rotation[Stream] = Rotation()
        self._swept: Rotation[Stream] = Rotation()
        self._control_state_unknown = True  # control messages may have been missed
        self._silence: Callable[[], None] | None = None

    @property
    def description(self) -> str:
        what = " cluster" if self._store.is_cluster else ""
        return f"{self._store.server}{what} at {self._store.address}"

    def for_other_loop(self) -> RedisStore:
        return RedisStore(self._store.for_other_loop(), self._confirmation)

    async def open(self) -> None:
        if self._store.life.on_own_loop:
            return
        await self.close()  # connections left by another event loop or by the parent process
        self._store.begin()
        self._recoverer = Recoverer(self._store)  # its lock is for one event loop
        try:
            wire = await self._store.link.connected()
            await self._store.check_permissions(wire)
            await check_format(self._store)
            await self._store.learn_tags()
            await check_durability(self._confirmation, wire)
            await self._announcements.open()
        except CommandRefused as error:
            self._store.leave()
            raise ConfigurationError(str(error)) from error
        except BaseException:
            self._store.leave()
            raise
        self._silence = self._announcements.listen(self._hear)

    async def close(self) -> None:
        if self._silence is not None:
            self._silence()
        if self._store.life.on_own_loop:
            await asyncio.gather(*[reader.stop() for reader in self._readers.values()])
            await asyncio.gather(*[tail.stop() for tail in self._tails.values()])
            await self._announcements.close()
        else:
            self._announcements.abandon()
        self._readers.clear()
        self._tails.clear()
        self._store.leave()

    def _hear(self, notice: ControlMessage) -> None:
        if isinstance(notice, MissedNotice):
            self._control_state_unknown = True
            self._look_again()
        elif isinstance(notice, PauseNotice):
            self._set_paused(
                self._paused | {notice.stream} if notice.paused else self._paused - {notice.stream}
            )

    def _hear_of_lanes(self, stream: Stream, lanes: str) -> None:
        """A message came into a lane that was not in use. Waiting readers must block on that lane, too."""
        queue = self._store.known(stream)
        if queue is None:
            return
        self._store.lanes[queue] = lanes
        if not self._store.is_cluster:  # readers do not block on a cluster
            self._look_again()

    def _hear_of_work(self, stream: Stream, consumer: str) -> None:
        """A message came into a queue that this consumer, and perhaps others, had found empty."""
        queue = self._store.known(stream)
        if queue is not None:
            for reader in self._readers.values():
                reader.ready(queue, consumer)

    def _look_again(self) -> None:
        """Make waiting readers look again."""
        for reader in self._readers.values():
            reader.look_again()

    def _set_paused(self, paused: set[Stream]) -> None:
        if paused != self._paused:
            # The readers share the set.
            self._paused.clear()
            self._paused.update(paused)
            self._look_again()

    # --- the path of a message ---------------------------------------------------------------------------

    async def declare_stream(self, stream: Stream, lease_us: int) -> int | None:
        await self._store.demand("worker")
        self._store.keep(stream)
        await self._store.demand("producer")
        await self._store.list_streams(stream)
        self._leases[stream] = lease_us  # also when it is refused now: see `_heal`
        previous = await self._store.run(self._store.queue(stream).call(DECLARE_STREAM, lease_us))
        if self._store.is_cluster and stream.kind == "queue":
            await self.copy_figures(stream)
        return int(previous) if previous and previous.isdigit() and int(previous) != lease_us else None

    async def append(self, batch: Batch) -> list[Answer]:
        if not batch.messages:
            return []
        if batch.stream not in self._store.listed:
            await self._store.demand("producer")
            await self._store.list_streams(batch.stream, relayed=batch.producer.startswith(OUTBOX))
        queue = self._store.queue(batch.stream)
        wire = await self._store.wire_to(queue, self._append_way) if self._append_way else None
        # On a cluster the append must notify waiting readers, which only the general script does.
        one = None if self._store.is_cluster else call_of_one(queue, batch)
        # If the answer is not TAKEN, the server did nothing. The calls below find out why.
        if one is not None and await self._store.run_packed(APPEND_ONE, one, self._append_way) == TAKEN:
            answers = [Answer(batch.messages[0].id)]
            if wire:
                await self._confirm(queue, wire, answers)
            return answers
        replies = await self._store.run_all(calls_of(queue, batch), self._append_way, tolerates=is_per_chunk)
        try:
            answers = answers_of(batch, replies)
        except Moved as moved:
            moved.undurable = await self._unconfirmed(queue, wire, moved.answers)
            raise
        if wire:
            await self._confirm(queue, wire, answers)
        return answers

    async def _confirm(self, queue: StreamScripts, wire: Wire | None, answers: list[Answer]) -> None:
        if self._confirmation and wire and any(answer.verdict != "full" for answer in answers):
            await confirm(self._confirmation, wire, queue.keys.confirmed, answers)

    async def _unconfirmed(
        self, queue: StreamScripts, wire: Wire | None, answers: list[Answer | None]
    ) -> NotConfirmed | None:
        """The error for messages that were stored before the part was sealed, if they are not confirmed."""
        try:
            await self._confirm(queue, wire, [answer for answer in answers if answer is not None])
        except NotConfirmed as error:
            return error
        return None

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
        queues = [self._store.queue(stream) for stream in streams]
        reader = self._reader(consumer)
        return await reader.claim(
            wanted(
                queues,
                limit=limit,
                suspects=suspects,
                children=children,
                constrained=constrained,
                wait=wait,
                turn=next(self._turns),
            )
        )

    def wake(self, consumer: str) -> None:
        # A consumer that has neither claimed nor read yet may do either next.
        unknown = consumer not in self._readers and consumer not in self._tails
        if unknown or consumer in self._readers:
            self._reader(consumer).wake()
        if unknown or consumer in self._tails:
            self._tail(consumer).wake()

    def _reader(self, consumer: str) -> ClaimReader | ClusterReaders:
        reader = self._readers.get(consumer)
        if reader is None:
            make = ClusterReaders if self._store.is_cluster else ClaimReader
            reader = self._readers[consumer] = make(self._store, consumer, self._paused)
        return reader

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        steps = steps_of(settlements, self._store.queue)
        answers = await self._store.run_all([step.call for step in steps]) if steps else []
        verdicts = verdicts_of(steps, answers, len(settlements))
        for index in constrained_since(steps, answers):
            [verdicts[index]] = await self.settle([with_constraints(settlements[index])])
        return verdicts

    async def report_progress(self, reports: Sequence[Report]) -> None:
        calls = report_calls(reports, self._store.queue)
        if calls:
            await self._store.run_all(calls)

    def lease_keeper(self) -> LeaseKeeper:
        return RedisLeaseKeeper(self._store.for_other_loop())

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
        return await self._recoverer.reclaim(
            streams, limit, every_us, after_outage=after_outage, crash_limits=crash_limits
        )

    async def promote(self, streams: Sequence[Stream], *, limit: int) -> Promoted:
        return await promote(self._store, streams, limit)

    async def prune(self, *, limit: int) -> int:
        """Remove old workers and names of consumers. End records and producers expire by themselves here."""
        forgotten = await forget_silent_workers(self._store, limit)
        swept = self._swept.some(sorted(await self.streams(), key=label_of))
        calls = [
            self._store.queue(stream).call(FORGET_CONSUMERS, CONSUMER_IDLE, limit, SWEEP_EVERY)
            for stream in swept
            if stream.kind != "topic"
        ]
        queues = [self._store.queue(stream) for stream in swept if stream.kind == "queue"]
        calls += [call for queue in queues for call in record_calls(queue, [], RingLimits())]
        if calls:
            await self._store.run_all(calls)
        return forgotten

    async def heartbeat(
        self, worker: WorkerInfo, readers: Mapping[str, Sequence[Stream]], *, leaving: bool = False
    ) -> ControlState:
        if leaving:
            await self._retire(worker, readers)
            return ControlState()
        seen = encode_worker(WorkerEntry(self._store.now_us() + WORKER_TTL_US, worker))
        streams = list(dict.fromkeys(stream for streams in readers.values() for stream in streams))
        anew, self._control_state_unknown = self._control_state_unknown, False
        streams = streams if anew else self._looks.some(streams)
        metas = [self._store.queue(stream).keys.meta for stream in streams]
        (seal, revision), noted, *rows = await self._store.values(
            (self._store.keys.seal, self._store.keys.revision),
            ("HSET", self._store.keys.workers, worker.consumer, seen),
            *(("HMGET", meta, "paused", "lease", "layout") for meta in metas),
            tolerates=lambda reply: is_out_of_memory(reply) or is_damaged(reply),
        )
        if is_damaged(noted):
            self._store.check([noted], None)
        paused_limits = await self.paused_tasks(revision, anew=anew)
        known = {stream: row for stream, row in zip(streams, rows, strict=True) if not is_damaged(row)}
        for stream in set(streams) - known.keys():
            self._notices.warn(f"the keys of {stream.name!r} are damaged: see headrace doctor")
        leases = {stream: int(lease) for stream, (_, lease, _) in known.items() if lease and lease.isdigit()}
        moved_to = shown_target(seal if isinstance(seal, bytes) else None)
        if not moved_to:
            await self._heal([stream for stream in known if stream not in leases])
        paused = frozenset(stream for stream, (flag, _, _) in known.items() if flag == b"1")
        self._set_paused(self._paused - known.keys() | paused)
        queues = {stream: layout for stream, (_, _, layout) in known.items() if stream.kind == "queue"}
        layouts = {stream: decode_layout(layout) for stream, layout in queues.items()}
        return ControlState(paused, leases, layouts, moved_to, paused_limits)

    async def _heal(self, forgotten: list[Stream]) -> None:
        """Declare emptied streams again: without their lease, jobs are taken from their workers."""
        for stream in forgotten:
            if stream in self._leases and not await self._was_removed(stream):
                self._notices.warn(
                    f"{self._store.server_name} has forgotten {stream.name!r}: was it emptied?"
                )
                self._control_state_unknown = True  # the other streams may be gone as well
                with contextlib.suppress(OutOfMemory):
                    await self.declare_stream(stream, self._leases[stream])
                    await self.declare_again()

    async def _retire(self, worker: WorkerInfo, readers: Mapping[str, Sequence[Stream]]) -> None:
        for consumer in readers:
            for leaving in (self._readers.pop(consumer, None), self._tails.pop(consumer, None)):
                if leaving is not None:
                    await leaving.stop()
        await forget_leaving_worker(self._store, worker, readers)

    def listen(self, hear: Callable[[ControlMessage], None]) -> Callable[[], None]:
        return self._announcements.listen(hear)

    # --- one message -------------------------------------------------------------------------------------

    async def get(self, stream: Stream, id: str) -> Record | None:
        rows = await self._store.run(self._store.queue(stream).call(GET, id))
        return record_of(stream, rows[0]) if rows else None

    async def wait_for_end(self, stream: Stream, id: str, timeout: float | None) -> Record | None:
        return await self._announcements.wait_for_end(stream, id, timeout)

    async def cancel(self, stream: Stream, id: str, *, ttl_us: int) -> CancelAnswer:
        answer: bytes = await self._store.run(self._store.queue(stream).call(CANCEL, id, ttl_us))
        return CancelAnswer(answer.decode())
