"""The verbs of the store contract. Each takes the lock once for its step, and waits outside the lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import count
from time import monotonic

import msgspec

from headrace.core.errors import BackendUnavailable
from headrace.core.limits.figures import LimitFigures, LimitRecord
from headrace.core.limits.limiting import Limiting
from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.message import Batch, Stream
from headrace.core.messages.outcome import Settlement, Verdict
from headrace.core.records.answers import Answer, CancelAnswer, Promoted, Reclaimed
from headrace.core.records.control import ControlMessage, ControlState
from headrace.core.records.findings import Finding, ok
from headrace.core.records.record import Record, WorkerInfo
from headrace.core.records.traffic import TrafficCount, TrafficRecord
from headrace.core.rules.clock_steps import ClockSteps
from headrace.core.runtime.child_process import is_child
from headrace.core.runtime.clock import ClockWatch, TimeSource
from headrace.core.schedules.schedule_record import ScheduleSwap, Swapped, Timetable
from headrace.core.store import NO_CRASH_LIMITS, LeaseKeeper, PartitionedStore
from headrace.core.topics.topic import KeptTopics, Reading, Start, TopicRecord, TopicRules
from headrace.stores.memory.streams.stream_state import StreamState

from .claim_step import ClaimLimits
from .history import MemoryHistory
from .inspector import MemoryInspector
from .layouts import MemoryLayouts
from .lease_keeper import MemoryLeaseKeeper
from .outbox import MemoryOutboxes
from .shared_state import MemoryListener, SharedState
from .topic_views import reading_of, record_of_topic
from .views import end_of, record_of
from .waiter import Waiter

#: A waiter, and every set that contains it.
RegisteredWaiter = tuple[Waiter[None], list[set[Waiter[None]]]]


class MemoryStore(MemoryLayouts, MemoryOutboxes, MemoryHistory, MemoryInspector, Limiting, PartitionedStore):
    def __init__(self, store: SharedState, *, name: str, clock: TimeSource) -> None:
        self._store = store
        self._lock = store.lock
        self._name = name
        self._now_us = clock.now_us
        self._watch, self._clock_steps = ClockWatch(clock.elapsed_us), ClockSteps()
        self._turns = count(1)
        self._waiting: defaultdict[str, set[Waiter[None]]] = defaultdict(set)  # claims and readers
        self._woken: set[str] = set()
        self._watching: set[Waiter[Record | None]] = set()
        self._wants_order: dict[Stream, bool] = {}  # for the groups that were joined here

    @property
    def description(self) -> str:
        return f"memory ({self._name or 'private'})"

    def for_other_loop(self) -> MemoryStore:
        twin = copy(self)
        twin._waiting, twin._woken, twin._watching = defaultdict(set), set(), set()
        return twin

    async def open(self) -> None:
        """There is nothing to connect to."""

    async def close(self) -> None:
        for consumer, waiters in self._waiting.items():
            if waiters:
                self.wake(consumer)
        for watching in self._watching:
            watching.wake(BackendUnavailable("the memory store was closed while a caller waited for it"))

    # --- the path of a message ---------------------------------------------------------------------------

    async def declare_stream(self, stream: Stream, lease_us: int) -> int | None:
        with self._lock:
            return self._store.declare(stream, lease_us, self._now_us())

    async def remove_stream(self, stream: Stream) -> bool:
        with self._lock:
            return self._store.remove(stream)

    async def append(self, batch: Batch) -> list[Answer]:
        with self._lock:
            if is_child():
                self._store.demand_worker(self._now_us())
            return self._store.stream_state(batch.stream).append(batch, self._now_us())

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
        wanted = ClaimLimits(
            next(self._turns),
            limit,
            suspects,
            children=limit if children is None else children,
            constrained=limit if constrained is None else constrained,
        )
        until = monotonic() + wait
        while True:
            with self._lock:
                claims = self._store.take(streams, wanted, consumer, self._now_us())
                left = until - monotonic()
                if self._was_woken(consumer) or claims or left <= 0:
                    return claims
                # Added under the same lock, so that no message arrives unnoticed in between.
                registered = self._register_waiter(list(streams), consumer)
            await self._wait(registered, left)

    def _was_woken(self, consumer: str) -> bool:
        woken = consumer in self._woken
        self._woken.discard(consumer)
        return woken

    def _register_waiter(self, streams: Sequence[Stream], consumer: str) -> RegisteredWaiter:
        waiter: Waiter[None] = Waiter()
        places = [self._waiting[consumer], *map(self._store.waiters, streams)]
        for place in places:
            place.add(waiter)
        return waiter, places

    async def _wait(self, registered: RegisteredWaiter, timeout: float) -> None:
        """Wait until the waiter is woken, then remove it from its sets."""
        waiter, places = registered
        try:
            await waiter.heard(timeout, otherwise=None)
        finally:
            with self._lock:
                for place in places:
                    place.discard(waiter)

    def wake(self, consumer: str) -> None:
        self._woken.add(consumer)
        for waiter in self._waiting[consumer]:
            waiter.wake(None)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        with self._lock:
            return self._store.settle(settlements, self._now_us())

    async def report_progress(self, reports: Sequence[Report]) -> None:
        with self._lock:
            now_us = self._now_us()
            for report in reports:
                self._store.stream_state(report.claim.stream).report(report, now_us)

    def lease_keeper(self) -> LeaseKeeper:
        return MemoryLeaseKeeper(self._store, self._now_us)

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
        with self._lock:
            now_us = self._now_us()
            steps = self._clock_steps
            steps.note(streams, self._watch.step_us(now_us, self._watch.elapsed_us()))
            if after_outage or steps.concern(streams):
                self._store.restart_leases(list(streams), now_us)
                steps.applied(streams)
            reclaimed = self._store.reclaim(streams, limit, now_us, crash_limits)
            return msgspec.structs.replace(reclaimed, stepped_us=steps.tell())

    async def promote(self, streams: Sequence[Stream], *, limit: int) -> Promoted:
        with self._lock:
            return self._store.promote(streams, limit, self._now_us())

    async def prune(self, *, limit: int) -> int:
        with self._lock:
            return self._store.prune(limit, self._now_us())

    async def heartbeat(
        self, worker: WorkerInfo, readers: Mapping[str, Sequence[Stream]], *, leaving: bool = False
    ) -> ControlState:
        with self._lock:
            if not leaving:
                self._store.beat(worker, self._now_us())
                return self._store.control_state(
                    [stream for streams in readers.values() for stream in streams]
                )
            self._store.forget_worker(worker.consumer)
        for consumer in readers:
            self._waiting.pop(consumer, None)
            self._woken.discard(consumer)
        return ControlState()

    async def count_traffic(self, tallies: Sequence[TrafficCount]) -> None:
        with self._lock:
            self._store.traffic.add(tallies, self._now_us())

    async def traffic(self, minutes: int) -> list[TrafficRecord]:
        with self._lock:
            return self._store.traffic.records(minutes, self._now_us())

    def listen(self, hear: Callable[[ControlMessage], None]) -> Callable[[], None]:
        listener = MemoryListener(hear)
        with self._lock:
            self._store.listeners.add(listener)

        def stop() -> None:
            listener.silence()
            with self._lock:
                self._store.listeners.discard(listener)

        return stop

    # --- limits ------------------------------------------------------------------------------------------

    async def declare_limits(self, limits: Sequence[LimitFigures]) -> list[LimitFigures]:
        with self._lock:
            return self._store.limits.declare(limits, self._now_us())

    async def set_limit(self, name: str, figures: LimitFigures | None) -> bool:
        with self._lock:
            return self._store.limits.override(name, figures, self._now_us())

    async def limits(self, *, counted: bool = True) -> list[LimitRecord]:
        with self._lock:
            return self._store.limits.records()

    # --- schedules ---------------------------------------------------------------------------------------

    async def schedules(self, streams: Sequence[Stream]) -> Timetable:
        with self._lock:
            stream_states = [self._store.stream_state(stream) for stream in streams]
            records = tuple(
                record for stream_state in stream_states for record in stream_state.schedules.values()
            )
            return Timetable(self._now_us(), records)

    async def swap_schedules(self, swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
        with self._lock:
            now_us = self._now_us()
            return [self._store.swap_schedule(swap, now_us) for swap in swaps]

    # --- topics and groups -------------------------------------------------------------------------------

    async def declare_topic(self, topic: Stream, rules: TopicRules) -> None:
        with self._lock:
            self._store.topic(topic).declare_topic(rules)

    async def join(self, group: Stream, start: Start, *, ordered: bool = False) -> bool:
        self._wants_order[group] = ordered
        with self._lock:
            return self._store.join(group, start, ordered=ordered, now_us=self._now_us())

    async def read(
        self, topic: Stream, after: int | Start, *, consumer: str, limit: int, wait: float
    ) -> Reading:
        until = monotonic() + wait
        while True:
            with self._lock:
                log = self._store.topic(topic).log
                after = log.position(after) if isinstance(after, Start) else after
                reading = reading_of(log, after, limit, self._now_us())
                left = until - monotonic()
                if self._was_woken(consumer) or reading.entries or left <= 0:
                    return reading
                registered = self._register_waiter([topic], consumer)
            await self._wait(registered, left)

    async def keep_topics(self, groups: Sequence[Stream], *, limit: int) -> KeptTopics:
        with self._lock:
            return self._store.keep_topics(groups, self._wants_order, limit, self._now_us())

    async def topics(self, names: Sequence[str] | None = None) -> list[TopicRecord]:
        with self._lock:
            return [record_of_topic(topic, self._now_us()) for topic in self._store.topics(names)]

    async def reset(self, group: Stream, start: Start) -> bool:
        with self._lock:
            return self._store.group(group).reset(start, self._now_us())

    # --- one message -------------------------------------------------------------------------------------

    async def get(self, stream: Stream, id: str) -> Record | None:
        with self._lock:
            stream_state = self._store.stream_states.get(stream)
            return record_of(stream_state, id, self._now_us()) if stream_state else None

    async def wait_for_end(self, stream: Stream, id: str, timeout: float | None) -> Record | None:
        with self._lock:
            stream_state = self._store.stream_state(stream)
            record = end_of(stream_state, id, self._now_us())
            if record is not None:
                return record
            waiter = stream_state.watchers.add(id)
        self._watching.add(waiter)
        try:
            return await waiter.heard(timeout, otherwise=None)
        finally:
            self._watching.discard(waiter)
            self._unwatch(stream_state, id, waiter)

    def _unwatch(self, stream_state: StreamState, id: str, waiter: Waiter[Record | None]) -> None:
        with self._lock:
            stream_state.watchers.remove(id, waiter)

    async def cancel(self, stream: Stream, id: str, *, ttl_us: int) -> CancelAnswer:
        with self._lock:
            return self._store.stream_state(stream).cancel(id, ttl_us, self._now_us())

    async def examine(self) -> list[Finding]:
        return [ok("store", "memory: it lives in this process, and everything in it ends with it")]
