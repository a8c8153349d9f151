"""The verbs of the contract. Each makes one step in the journal, or looks at the state that comes of it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, islice
from os import PathLike
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import TypeVar

import msgspec

from headrace.store import (
    PURGED_END_RECORDS,
    Answer,
    BackendUnavailable,
    Batch,
    CancelAnswer,
    Claim,
    ClockSteps,
    ClockWatch,
    ControlMessage,
    ControlState,
    Counts,
    DeadAge,
    DeadFilter,
    DeadLetter,
    Finding,
    JobStatus,
    KeptTopics,
    LeaseKeeper,
    Level,
    OutboxRecord,
    OutgoingBatch,
    Page,
    Promoted,
    Reading,
    Reclaimed,
    Record,
    Refusal,
    Renewal,
    ReplayAnswer,
    Report,
    ScheduleSwap,
    Settlement,
    Start,
    Store,
    Stream,
    Swapped,
    SystemClock,
    TimeSource,
    Timetable,
    TopicRecord,
    TopicRules,
    TrafficCount,
    TrafficRecord,
    Verdict,
    Wanted,
    WorkerInfo,
    new_id,
)

from . import steps
from .journal import Journal
from .looking import counts_of, end_of, page_of_dead, page_of_records, record_of, record_of_topic
from .state import ClaimLimits, StoreState
from .topic import TopicState
from .waiting import Changes

T = TypeVar("T")

#: A message that a coroutine waits for.
Waited = tuple[Stream, str]


class JsonlStore(Store):
    """A store in one file. Processes of one machine may share it."""

    def __init__(self, path: str | PathLike[str], *, clock: TimeSource | None = None) -> None:
        self._path = Path(path)
        self._clock = clock or SystemClock()
        self._changes = Changes(self._look)
        self.journal = Journal(
            self._path,
            self._clock,
            announce=self._heard,
            ended=self._ended,
            changed=self._changes.ring,
        )
        self._watch, self._clock_steps = ClockWatch(self._clock.elapsed_us), ClockSteps()
        self._turns = count(1)
        self._woken: set[str] = set()
        self._listeners: list[Callable[[ControlMessage], None]] = []
        self._waited: defaultdict[Waited, list[asyncio.Future[Record]]] = defaultdict(list)
        self._wants_order: dict[str, bool] = {}  # of the groups that were joined here

    @property
    def description(self) -> str:
        return f"JSON lines ({self._path})"

    def for_other_loop(self) -> JsonlStore:
        twin = JsonlStore(self._path, clock=self._clock)
        twin._wants_order = self._wants_order
        return twin

    async def open(self) -> None:
        self.journal.open()
        try:
            self.journal.catch_up()
        except BackendUnavailable:
            self.journal.close()
            raise
        self._changes.watch()  # there may be listeners from before it was closed

    async def close(self) -> None:
        self.journal.close()
        self._changes.stop()
        self._changes.ring()

    # --- steps and looks ---------------------------------------------------------------------------------

    def _make(self, step: steps.Step[T]) -> T:
        answer = self.journal.make(step)
        self._changes.ring()
        return answer

    @contextmanager
    def _state(self) -> Iterator[tuple[StoreState, int]]:
        """The state as it is now, to look at, and the time."""
        with self.journal.locked() as now_us:
            yield self.journal.state, now_us

    def _look(self) -> None:
        try:
            self.journal.catch_up()
        except BackendUnavailable:
            self._changes.ring()  # callers that wait get the error from their own step

    def _heard(self, message: ControlMessage) -> None:
        for hear in list(self._listeners):
            asyncio.get_running_loop().call_soon(self._pass_on, hear, message)

    def _pass_on(self, hear: Callable[[ControlMessage], None], message: ControlMessage) -> None:
        if hear in self._listeners:
            hear(message)

    def _ended(self, stream: Stream, id: str) -> None:
        if (stream, id) not in self._waited:
            return
        record = end_of(self.journal.state.find(stream), id, self._clock.now_us())
        for waiting in self._waited[stream, id]:
            if record is not None and not waiting.done():
                waiting.set_result(record)

    # --- the path of a message ---------------------------------------------------------------------------

    async def declare_stream(self, stream: Stream, lease_us: int) -> int | None:
        return self._make(steps.DeclareStream(stream, lease_us))

    async def remove_stream(self, stream: Stream) -> bool:
        return self._make(steps.RemoveStream(stream))

    async def append(self, batch: Batch) -> list[Answer]:
        return self._make(steps.Append(batch))

    async def claim(
        self,
        streams: Sequence[Stream],
        *,
        consumer: str,
        limit: int,
        suspects: int,
        children: int | None = None,
        constrained: int | None = None,  # there are no messages with constraints
        wait: float,
    ) -> list[Claim]:
        limits = ClaimLimits(next(self._turns), limit, suspects, limit if children is None else children)
        step = steps.ClaimMessages(list(streams), consumer, limits)
        until = monotonic() + wait
        while True:
            claims = self.journal.make(step)  # wakes no waiter: claims must not wake each other
            left = until - monotonic()
            if self._was_woken(consumer) or claims or left <= 0:
                return claims
            await self._changes.next(left)

    def wake(self, consumer: str) -> None:
        self._woken.add(consumer)
        self._changes.ring()

    def _was_woken(self, consumer: str) -> bool:
        woken = consumer in self._woken
        self._woken.discard(consumer)
        return woken

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        return self._make(steps.Settle([steps.Settled.by(each) for each in settlements]))

    async def take_outgoing(
        self, streams: Sequence[Stream], *, relay: str, limit: int, hold_us: int
    ) -> list[OutgoingBatch]:
        epochs = [new_id() for _ in streams]
        return self._make(steps.TakeOutgoing(list(streams), relay, limit, hold_us, epochs))

    async def hand_on(self, batch: OutgoingBatch, *, kept: Sequence[int] = ()) -> None:
        if batch.origin is not None:
            self._make(steps.HandOn(batch.origin, batch.producer, batch.number, list(kept)))

    async def outboxes(self) -> list[OutboxRecord]:
        with self._state() as (state, now_us):
            return [outbox.record(now_us) for outbox in state.outboxes.values() if outbox.entries]

    async def bury(self, stream: Stream, refusals: Sequence[Refusal]) -> None:
        self._make(steps.Bury(stream, list(refusals)))

    async def report_progress(self, reports: Sequence[Report]) -> None:
        self._make(steps.ReportProgress([steps.Reported.by(each) for each in reports]))

    def lease_keeper(self) -> LeaseKeeper:
        return JsonlLeaseKeeper(Journal(self._path, self._clock))

    # --- upkeep ------------------------------------------------------------------------------------------

    async def reclaim(
        self,
        streams: Sequence[Stream],
        *,
        limit: int,
        every_us: int = 0,
        after_outage: bool = False,
        crash_limits: Mapping[Stream, int] = MappingProxyType({}),
    ) -> Reclaimed:
        clock_steps = self._clock_steps
        clock_steps.note(streams, self._watch.step_us(self._clock.now_us(), self._clock.elapsed_us()))
        restart = after_outage or clock_steps.concern(streams)
        reclaimed = self._make(steps.Reclaim(list(streams), limit, restart, list(crash_limits.items())))
        clock_steps.applied(streams)
        return msgspec.structs.replace(reclaimed, stepped_us=clock_steps.tell())

    async def promote(self, streams: Sequence[Stream], *, limit: int) -> Promoted:
        return self._make(steps.Promote(list(streams), limit))

    async def prune(self, *, limit: int) -> int:
        return self._make(steps.Prune(limit))

    async def heartbeat(
        self, worker: WorkerInfo, readers: Mapping[str, Sequence[Stream]], *, leaving: bool = False
    ) -> ControlState:
        if leaving:
            self._make(steps.Leave(worker.consumer))
            self._woken.difference_update(readers)
            return ControlState()
        self._make(steps.Beat(worker))
        with self._state() as (state, _):
            return state.control_state([stream for streams in readers.values() for stream in streams])

    async def count_traffic(self, tallies: Sequence[TrafficCount]) -> None:
        self._make(steps.CountTraffic(list(tallies)))

    async def traffic(self, minutes: int) -> list[TrafficRecord]:
        with self._state() as (state, now_us):
            return state.traffic(minutes, now_us)

    def listen(self, hear: Callable[[ControlMessage], None]) -> Callable[[], None]:
        self.journal.catch_up()  # what was announced before is not heard
        self._listeners.append(hear)
        self._changes.listeners += 1
        self._changes.watch()

        def stop() -> None:
            if hear in self._listeners:
                self._listeners.remove(hear)
                self._changes.listeners -= 1

        return stop

    # --- schedules ---------------------------------------------------------------------------------------

    async def schedules(self, streams: Sequence[Stream]) -> Timetable:
        with self._state() as (state, now_us):
            records = [record for stream in streams for record in state.find(stream).schedules.values()]
            return Timetable(now_us, tuple(records))

    async def swap_schedules(self, swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
        swapped: list[Swapped] = []
        failed: Exception | None = None
        for swap in swaps:
            try:
                swapped.append(self._make(steps.SwapSchedule(swap)))
            except Exception as error:  # the others are carried out even so
                failed = failed or error
        if failed is not None:
            raise failed
        return swapped

    # --- topics ------------------------------------------------------------------------------------------

    async def declare_topic(self, topic: Stream, rules: TopicRules) -> None:
        self._make(steps.DeclareTopic(topic, rules))

    async def join(self, group: Stream, start: Start, *, ordered: bool = False) -> bool:
        self._wants_order[group.name] = ordered
        return self._make(steps.Join(group, start, ordered))

    async def read(
        self, topic: Stream, after: int | Start, *, consumer: str, limit: int, wait: float
    ) -> Reading:
        until = monotonic() + wait
        while True:
            with self._state() as (state, now_us):
                found = state.find(topic)
                assert isinstance(found, TopicState)
                after = found.log.position(after) if isinstance(after, Start) else after
                events = found.log.after(after, limit)
            left = until - monotonic()
            if self._was_woken(consumer) or events or left <= 0:
                position = events[-1].number if events else after
                return Reading(tuple(event.log_entry for event in events), position, now_us)
            await self._changes.next(left)

    async def keep_topics(self, groups: Sequence[Stream], *, limit: int) -> KeptTopics:
        names = {stream.name for stream in groups}
        wants_order = {name: ordered for name, ordered in self._wants_order.items() if name in names}
        return self._make(steps.KeepTopics(list(groups), wants_order, limit))

    async def topics(self, names: Sequence[str] | None = None) -> list[TopicRecord]:
        with self._state() as (state, now_us):
            return [record_of_topic(topic, now_us) for topic in state.topics(names)]

    async def reset(self, group: Stream, start: Start) -> bool:
        return self._make(steps.Reset(group, start))

    # --- one message -------------------------------------------------------------------------------------

    async def get(self, stream: Stream, id: str) -> Record | None:
        with self._state() as (state, now_us):
            return record_of(state.find(stream), id, now_us)

    async def wait_for_end(self, stream: Stream, id: str, timeout: float | None) -> Record | None:
        until = None if timeout is None else monotonic() + timeout
        with self._state() as (state, now_us):
            record = end_of(state.find(stream), id, now_us)
        if record is not None:
            return record
        end: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self._waited[stream, id].append(end)
        try:
            while not end.done():
                left = None if until is None else until - monotonic()
                if left is not None and left <= 0:
                    return None
                await self._changes.next(left)
                self.journal.check_open()
            return end.result()
        finally:
            self._waited[stream, id].remove(end)
            if not self._waited[stream, id]:
                del self._waited[stream, id]

    async def cancel(self, stream: Stream, id: str, *, ttl_us: int) -> CancelAnswer:
        return self._make(steps.Cancel(stream, id, ttl_us))

    # --- look and steer ----------------------------------------------------------------------------------

    async def streams(self) -> list[Stream]:
        with self._state() as (state, _):
            return [name for name, stream in state.streams.items() if stream.established]

    async def counts(self, stream: Stream) -> Counts:
        with self._state() as (state, now_us):
            return counts_of(state.find(stream), now_us)

    async def messages(
        self,
        stream: Stream,
        *,
        status: JobStatus | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[Record]:
        with self._state() as (state, now_us):
            return page_of_records(state.find(stream), status, task, cursor, limit, now_us)

    async def holders(self, stream: Stream, wanted: Sequence[Wanted]) -> list[str | None]:
        with self._state() as (state, now_us):
            found = state.find(stream)
            return [found.holder(each.id, each.key, now_us) for each in wanted]

    async def workers(self) -> list[WorkerInfo]:
        with self._state() as (state, now_us):
            return [seen.worker for seen in state.workers.values() if seen.until_us > now_us]

    async def pause(self, stream: Stream, *, paused: bool) -> None:
        self._make(steps.Pause(stream, paused))

    async def purge(
        self, stream: Stream, *, ttl_us: int, limit: int, end_records: int = PURGED_END_RECORDS
    ) -> int:
        return self._make(steps.Purge(stream, ttl_us, limit, end_records))

    async def dead_letters(
        self, stream: Stream, *, only: DeadFilter, cursor: str | None = None, limit: int = 100
    ) -> Page[DeadLetter]:
        with self._state() as (state, _):
            return page_of_dead(state.find(stream), only, cursor, limit)

    async def oldest_dead(self, stream: Stream, *, limit: int) -> list[DeadAge]:
        with self._state() as (state, now_us):
            dead = state.find(stream).dead
            return [DeadAge(id, now_us - dead[id].since_us) for id in islice(dead, limit)]

    async def replay(self, stream: Stream, ids: Sequence[str]) -> list[ReplayAnswer]:
        return self._make(steps.Replay(stream, list(ids)))

    async def discard(self, stream: Stream, ids: Sequence[str]) -> int:
        return self._make(steps.Discard(stream, list(ids)))

    async def clean(self, stream: Stream, ids: Sequence[str], *, status: JobStatus, ttl_us: int) -> int:
        return self._make(steps.Clean(stream, list(ids), status, ttl_us))

    async def release_key(self, stream: Stream, key: str) -> bool:
        return self._make(steps.ReleaseKey(stream, key))

    async def run_now(self, stream: Stream, id: str) -> bool:
        return self._make(steps.RunNow(stream, id))

    async def rewrite(self, stream: Stream, id: str, body: bytes) -> bool:
        return self._make(steps.Rewrite(stream, id, body))

    async def examine(self) -> list[Finding]:
        size = self._path.stat().st_size
        return [Finding("store", Level.OK, f"JSON lines in {self._path}, {size:,} bytes, never shortened")]


class JsonlLeaseKeeper(LeaseKeeper):
    """Has the journal open a second time, since it runs in another thread."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    async def renew(self, claims: Sequence[Claim], *, after_outage: bool = False) -> list[Renewal]:
        self.journal.open()
        return self.journal.make(steps.Renew([steps.Held.by(claim) for claim in claims], after_outage))

    async def close(self) -> None:
        self.journal.close()
