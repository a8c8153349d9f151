"""The streams, workers and listeners of one store. Store objects in any thread share this state."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.limits.paused_tasks import paused_tasks
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import Settlement, Verdict
from headrace.core.records.answers import Promoted, Reclaimed, Recovery
from headrace.core.records.control import ControlMessage, ControlState, ScheduleNotice
from headrace.core.records.record import WORKER_TTL_US, WorkerInfo
from headrace.core.rules.lanes import first_of
from headrace.core.rules.layout import Layout
from headrace.core.schedules.schedule_record import ScheduleSwap, Swapped
from headrace.core.store import CRASH_LIMIT
from headrace.core.topics.topic import KeptTopics, Start
from headrace.stores.memory.streams.group_state import GroupState
from headrace.stores.memory.streams.history_ring import HistoryRing
from headrace.stores.memory.streams.outbox_state import OutboxState
from headrace.stores.memory.streams.stream_state import StreamState
from headrace.stores.memory.streams.topic_state import TopicState

from .claim_step import ClaimLimits, ClaimStep
from .limits import LimitStates
from .traffic import TrafficByMinute
from .waiter import Waiter


class _ForkedStores:
    """Makes a fork wait for running steps. So each store in the child is between two steps, and its lock is
    free."""

    def __init__(self) -> None:
        self.stores: weakref.WeakSet[SharedState] = weakref.WeakSet()
        self._turn = threading.Lock()
        self._held: list[SharedState] = []

    def before(self) -> None:
        self._turn.acquire()
        self._held = list(self.stores)
        for store in self._held:
            store.lock.acquire()

    def after(self) -> None:
        held, self._held = self._held, []
        for store in held:
            store.lock.release()
        self._turn.release()


_fork = _ForkedStores()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_fork.before, after_in_parent=_fork.after, after_in_child=_fork.after)


class AnnouncedWorker(msgspec.Struct, frozen=True):
    worker: WorkerInfo
    until_us: int


class MemoryListener:
    """Calls a function with control messages on its own event loop, until it is silenced."""

    def __init__(self, hear: Callable[[ControlMessage], None]) -> None:
        self._hear: Callable[[ControlMessage], None] | None = hear
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def notify(self, notice: ControlMessage) -> None:
        same_thread = threading.get_ident() == self._thread
        call = self._loop.call_soon if same_thread else self._loop.call_soon_threadsafe
        try:
            call(self._heard, notice)
        except RuntimeError:
            pass  # That loop is closed: the listener is gone.

    def silence(self) -> None:
        self._hear = None

    def _heard(self, notice: ControlMessage) -> None:
        if self._hear is not None:
            self._hear(notice)


class SharedState:
    """The caller of a method holds `lock`: one acquisition serves a whole batch."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stream_states: dict[Stream, StreamState] = {}
        self.layouts: dict[Stream, Layout] = {}
        #: An outbox stays when its group is removed: what was forwarded is accepted.
        self.outboxes: dict[Stream, OutboxState] = {}
        self.history: dict[Stream, HistoryRing] = {}
        self.listeners: set[MemoryListener] = set()
        self.traffic = TrafficByMinute()
        self.limits = LimitStates(self.announce)
        #: One counter for all streams: a group that is removed and joined again must not repeat a token.
        self._numbers = count(1)
        self._workers: OrderedDict[str, AnnouncedWorker] = OrderedDict()  # the longest silent first
        _fork.stores.add(self)

    def stream_state(self, stream: Stream) -> StreamState:
        """The state of a stream. The first call creates it."""
        stream_state = self.stream_states.get(stream)
        if stream_state is None:
            stream_state = self._new_state(stream)
            # A call must not bring a removed group back.
            if not self._was_removed(stream):
                self.stream_states[stream] = stream_state
        return stream_state

    def _new_state(self, stream: Stream) -> StreamState:
        match stream.kind:
            case "queue":
                return StreamState(stream, self.announce, self._numbers, self.limits)
            case "topic":
                return TopicState(stream, self.announce, self._numbers, self.limits)
            case "group":
                return GroupState(stream, self.announce, self._numbers, self.limits, self.topic(stream))

    def _was_removed(self, stream: Stream) -> bool:
        return stream.kind == "group" and stream.group in self.topic(stream).removed

    def waiters(self, stream: Stream) -> set[Waiter[None]]:
        """The waiters of a stream. For a removed group these are the topic's, so that a claim wakes up when
        the group is joined again."""
        removed = stream not in self.stream_states and self._was_removed(stream)
        return self.topic(stream).waiters if removed else self.stream_state(stream).waiters

    def announce(self, notice: ControlMessage) -> None:
        for listener in self.listeners:
            listener.notify(notice)

    def declare(self, stream: Stream, lease_us: int, now_us: int) -> int | None:
        stream_state = self.stream_states[stream] = self.stream_state(stream)
        return stream_state.declare(lease_us, now_us)

    def swap_schedule(self, swap: ScheduleSwap, now_us: int) -> Swapped:
        stream_state = self.stream_state(swap.stream)
        stored = stream_state.schedules.get(swap.name)
        if swap.is_refused(stored, now_us):
            return Swapped(False, stored)
        record = swap.record_at(now_us)
        if record is None:
            stream_state.schedules.pop(swap.name, None)
        else:
            stream_state.established = True
            stream_state.schedules[swap.name] = record
            if swap.messages:
                stream_state.append(swap.batch(record), now_us, ticking=True)
        if swap.announce:
            self.announce(ScheduleNotice(swap.stream))
        return Swapped(True, record)

    # --- topics and groups -------------------------------------------------------------------------------

    def topic(self, stream: Stream) -> TopicState:
        """The state of a topic, or of the topic of a group."""
        stream_state = self.stream_state(Stream("topic", stream.topic))
        assert isinstance(stream_state, TopicState)
        return stream_state

    def group(self, stream: Stream) -> GroupState:
        stream_state = self.stream_state(stream)
        assert isinstance(stream_state, GroupState)
        return stream_state

    def topics(self, names: Sequence[str] | None) -> list[TopicState]:
        stream_states = [
            stream_state
            for stream_state in self.stream_states.values()
            if isinstance(stream_state, TopicState)
        ]
        wanted = [
            stream_state
            for stream_state in stream_states
            if names is None or stream_state.stream.name in names
        ]
        return sorted(
            (stream_state for stream_state in wanted if stream_state.established),
            key=lambda stream_state: stream_state.stream.name,
        )

    def join(self, stream: Stream, start: Start, *, ordered: bool, now_us: int) -> bool:
        topic, group = self.topic(stream), self.group(stream)
        topic.refuse_if_sealed()
        new = group.join(start, ordered=ordered, now_us=now_us)
        self.stream_states[stream] = group
        topic.wake()
        return new

    def remove(self, stream: Stream) -> bool:
        stream_state = self.stream_states.get(stream)
        if stream_state is None or (stream.kind != "group" and self._is_in_use(stream_state)):
            return False
        del self.stream_states[stream]
        self.layouts.pop(stream, None)
        self.history.pop(stream, None)
        if not isinstance(stream_state, GroupState):
            stream_state.wake()  # waiting claims move to the next stream of this name
            return stream_state.established
        if not stream_state.joined:
            return False
        topic = self.topic(stream)
        topic.removed.add(stream.group)
        del topic.groups[stream.group]
        stream_state.leave()
        return True

    def _is_in_use(self, stream_state: StreamState) -> bool:
        outbox = self.outboxes.get(stream_state.stream)
        return stream_state.in_use or (outbox is not None and bool(outbox.entries))

    def keep_topics(
        self, streams: Sequence[Stream], wants_order: Mapping[Stream, bool], limit: int, now_us: int
    ) -> KeptTopics:
        """`wants_order`: whether this process wants a group to be ordered, for the groups that it joined."""
        groups = [self.group(stream) for stream in streams if stream.kind == "group"]
        for group in groups:
            group.note_member(now_us, wants_order=wants_order.get(group.stream))
        topics = {stream.topic: self.topic(stream) for stream in streams}.values()
        kept = KeptTopics(
            disputed=tuple(group.stream for group in groups if group.ordering.is_disputed(now_us)),
            stalled=tuple(group.stream for group in groups if group.stalled),
        )
        for topic in topics:
            kept += topic.kept(topic.trim(limit, now_us), now_us)
        return kept

    # --- the path of a message ---------------------------------------------------------------------------

    def take(self, streams: Sequence[Stream], wanted: ClaimLimits, consumer: str, now_us: int) -> list[Claim]:
        stream_states = self._open_states(streams, wanted.turn, now_us)
        return ClaimStep(stream_states, wanted, consumer=consumer, now_us=now_us).run()

    def _open_states(self, streams: Sequence[Stream], turn: int, now_us: int) -> list[StreamState]:
        first = first_of(len(streams), turn)
        stream_states = [self.stream_state(stream) for stream in (*streams[first:], *streams[:first])]
        for stream_state in stream_states:
            if isinstance(stream_state, GroupState) and not stream_state.joined:
                stream_state.note_member(now_us, wants_order=None)
        return [stream_state for stream_state in stream_states if not stream_state.paused]

    def settle(self, settlements: Sequence[Settlement], now_us: int) -> list[Verdict]:
        if not settlements:
            return []
        stream = settlements[0].claim.stream
        if not [
            each for each in settlements if each.claim.stream is not stream or each.forwards or each.record
        ]:
            return self.stream_state(stream).settle_all(settlements, now_us)  # almost always
        return [self._settle(each, now_us) for each in settlements]

    def _settle(self, settlement: Settlement, now_us: int) -> Verdict:
        claim = settlement.claim
        verdict = self.stream_state(claim.stream).settle(claim, settlement.outcome, now_us)
        if settlement.forwards and verdict is Verdict.KEPT:
            self.outboxes.setdefault(claim.stream, OutboxState()).put(settlement.forwards, now_us)
        if settlement.record is not None and verdict is Verdict.KEPT:
            self.history_of(claim.stream).put(settlement.record)
        return verdict

    def history_of(self, stream: Stream) -> HistoryRing:
        return self.history.setdefault(stream, HistoryRing())

    def restart_leases(self, streams: Iterable[Stream], now_us: int) -> None:
        for stream in streams:
            self.stream_state(stream).restart_leases(now_us)

    def reclaim(
        self, streams: Sequence[Stream], limit: int, now_us: int, crash_limits: Mapping[Stream, int]
    ) -> Reclaimed:
        recovered: list[Recovery] = []
        for stream in streams:
            most = crash_limits.get(stream, CRASH_LIMIT)
            recovered += self.stream_state(stream).recover(limit - len(recovered), now_us, most)
        more = any(self.stream_state(stream).overdue(now_us) for stream in streams)
        return Reclaimed(tuple(recovered), more)

    def promote(self, streams: Sequence[Stream], limit: int, now_us: int) -> Promoted:
        stream_states = [self.stream_state(stream) for stream in streams]
        self.limits.look(now_us)
        for promoted in range(limit + 1):
            due = [
                (due_us, stream_state)
                for stream_state in stream_states
                if (due_us := stream_state.due_messages.first_us()) is not None
            ]
            first_us = min((due_us for due_us, _ in due), default=None)
            if first_us is None or first_us > now_us or promoted == limit:
                times = [time for time in (first_us, self.limits.first_us()) if time is not None]
                return Promoted(promoted, max(min(times) - now_us, 0) if times else None)
            _, stream_state = min(due, key=lambda pair: pair[0])
            stream_state.promote(now_us)
        raise AssertionError("unreachable")

    def prune(self, limit: int, now_us: int) -> int:
        pruned = 0
        for stream_state in self.stream_states.values():
            pruned += stream_state.prune(limit - pruned, now_us)
        for ring in self.history.values():
            pruned += ring.prune(limit - pruned, now_us)
        while pruned < limit and self._workers:
            consumer, seen = next(iter(self._workers.items()))
            if seen.until_us > now_us:
                break
            del self._workers[consumer]
            pruned += 1
        return pruned

    def beat(self, worker: WorkerInfo, now_us: int) -> None:
        self._workers[worker.consumer] = AnnouncedWorker(worker, now_us + WORKER_TTL_US)
        self._workers.move_to_end(worker.consumer)

    def control_state(self, streams: Sequence[Stream]) -> ControlState:
        stream_states = self.stream_states
        own = [stream_state for stream in streams if (stream_state := stream_states.get(stream))]
        return ControlState(
            paused=frozenset(stream for stream, stream_state in stream_states.items() if stream_state.paused),
            leases={
                stream_state.stream: us for stream_state in own if (us := stream_state.lease.us) is not None
            },
            paused_tasks=paused_tasks(self.limits.all_figures()),
        )

    def forget_worker(self, consumer: str) -> None:
        self._workers.pop(consumer, None)

    def demand_worker(self, now_us: int) -> None:
        """Refuse messages in a child process, where no worker could ever claim them."""
        if not self.workers(now_us):
            raise ConfigurationError(
                "a task with run_in='process' cannot enqueue or publish on memory://: its process has its "
                "own store, which no worker serves. Do it in another task, or use SQLite or a server"
            )

    def workers(self, now_us: int) -> list[WorkerInfo]:
        return [seen.worker for seen in self._workers.values() if seen.until_us > now_us]


_shared: dict[tuple[str, str], SharedState] = {}
_shared_lock = threading.Lock()


def shared_store(namespace: str, name: str) -> SharedState:
    """The store of that name in this process. It exists as long as the process."""
    with _shared_lock:
        return _shared.setdefault((namespace, name), SharedState())
