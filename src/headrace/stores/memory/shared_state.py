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

from headrace.core.messages.claim import Claim, size_of
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import Settlement, Verdict
from headrace.core.records.answers import Promoted, Reclaimed, Recovery
from headrace.core.records.control import ControlMessage, ControlState, ScheduleNotice
from headrace.core.records.record import WORKER_TTL_US, WorkerInfo
from headrace.core.rules.lanes import first_of, is_child_work_first, is_from_bottom
from headrace.core.rules.layout import Layout
from headrace.core.schedules.schedule_record import ScheduleSwap, Swapped
from headrace.core.store import CLAIM_BYTES
from headrace.core.topics.topic import KeptTopics, Start
from headrace.stores.memory.streams.group_state import GroupState
from headrace.stores.memory.streams.lanes import BOTTOM_UP, CHILD, RETURNED, SUSPECT, TOP_DOWN
from headrace.stores.memory.streams.stream_state import StreamState
from headrace.stores.memory.streams.topic_state import TopicState

from .traffic import TrafficByMinute
from .waiter import Waiter


class ClaimLimits(msgspec.Struct, frozen=True):
    """The most messages that a claim wants. `turn` counts the claims of a process."""

    turn: int
    limit: int
    suspects: int
    children: int

    @property
    def lanes(self) -> tuple[int, ...]:
        """The lanes after the lane of suspects, in the order in which a claim takes from them."""
        return (RETURNED, *(BOTTOM_UP if is_from_bottom(self.turn) else TOP_DOWN))


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

    def tell(self, order: ControlMessage) -> None:
        same_thread = threading.get_ident() == self._thread
        call = self._loop.call_soon if same_thread else self._loop.call_soon_threadsafe
        try:
            call(self._heard, order)
        except RuntimeError:
            pass  # That loop is closed: the listener is gone.

    def silence(self) -> None:
        self._hear = None

    def _heard(self, order: ControlMessage) -> None:
        if self._hear is not None:
            self._hear(order)


class SharedState:
    """The caller of a method holds `lock`: one acquisition serves a whole batch."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.shelves: dict[Stream, StreamState] = {}
        self.layouts: dict[Stream, Layout] = {}
        self.listeners: set[MemoryListener] = set()
        self.traffic = TrafficByMinute()
        #: One counter for all streams: a group that is removed and joined again must not repeat a token.
        self._numbers = count(1)
        self._workers: OrderedDict[str, AnnouncedWorker] = OrderedDict()  # the longest silent first
        _fork.stores.add(self)

    def shelf(self, stream: Stream) -> StreamState:
        """The state of a stream. The first call creates it."""
        shelf = self.shelves.get(stream)
        if shelf is None:
            shelf = self._new_shelf(stream)
            # A call must not bring a removed group back.
            if not self._was_removed(stream):
                self.shelves[stream] = shelf
        return shelf

    def _new_shelf(self, stream: Stream) -> StreamState:
        match stream.kind:
            case "queue":
                return StreamState(stream, self.announce, self._numbers)
            case "topic":
                return TopicState(stream, self.announce, self._numbers)
            case "group":
                return GroupState(stream, self.announce, self._numbers, self.topic(stream))

    def _was_removed(self, stream: Stream) -> bool:
        return stream.kind == "group" and stream.group in self.topic(stream).removed

    def bells(self, stream: Stream) -> set[Waiter[None]]:
        """The waiters of a stream. For a removed group these are the topic's, so that a claim wakes up when
        the group is joined again."""
        removed = stream not in self.shelves and self._was_removed(stream)
        return self.topic(stream).bells if removed else self.shelf(stream).bells

    def announce(self, order: ControlMessage) -> None:
        for listener in self.listeners:
            listener.tell(order)

    def ensure(self, stream: Stream, lease_us: int, now_us: int) -> int | None:
        shelf = self.shelves[stream] = self.shelf(stream)
        return shelf.ensure(lease_us, now_us)

    def swap_schedule(self, swap: ScheduleSwap, now_us: int) -> Swapped:
        shelf = self.shelf(swap.stream)
        stored = shelf.schedules.get(swap.name)
        if swap.is_refused(stored, now_us):
            return Swapped(False, stored)
        record = swap.record_at(now_us)
        if record is None:
            shelf.schedules.pop(swap.name, None)
        else:
            shelf.established = True
            shelf.schedules[swap.name] = record
            if swap.messages:
                shelf.append(swap.batch(record), now_us, ticking=True)
        if swap.announce:
            self.announce(ScheduleNotice(swap.stream))
        return Swapped(True, record)

    # --- topics and groups -------------------------------------------------------------------------------

    def topic(self, stream: Stream) -> TopicState:
        """The state of a topic, or of the topic of a group."""
        shelf = self.shelf(Stream("topic", stream.topic))
        assert isinstance(shelf, TopicState)
        return shelf

    def group(self, stream: Stream) -> GroupState:
        shelf = self.shelf(stream)
        assert isinstance(shelf, GroupState)
        return shelf

    def topics(self, names: Sequence[str] | None) -> list[TopicState]:
        shelves = [shelf for shelf in self.shelves.values() if isinstance(shelf, TopicState)]
        wanted = [shelf for shelf in shelves if names is None or shelf.stream.name in names]
        return sorted((shelf for shelf in wanted if shelf.established), key=lambda shelf: shelf.stream.name)

    def join(self, stream: Stream, start: Start, *, ordered: bool, now_us: int) -> bool:
        topic, group = self.topic(stream), self.group(stream)
        topic.refuse_if_sealed()
        new = group.join(start, ordered=ordered, now_us=now_us)
        self.shelves[stream] = group
        topic.ring()
        return new

    def remove(self, stream: Stream) -> bool:
        shelf = self.shelves.get(stream)
        if shelf is None or (stream.kind != "group" and shelf.in_use):
            return False
        del self.shelves[stream]
        self.layouts.pop(stream, None)
        if not isinstance(shelf, GroupState):
            shelf.ring()  # waiting claims move to the next stream of this name
            return shelf.established
        if not shelf.joined:
            return False
        topic = self.topic(stream)
        topic.removed.add(stream.group)
        del topic.groups[stream.group]
        shelf.leave()
        return True

    def keep_topics(
        self, streams: Sequence[Stream], wishes: Mapping[Stream, bool], limit: int, now_us: int
    ) -> KeptTopics:
        """`wishes`: whether a member wants its group to be ordered, for the members that have said so."""
        groups = [self.group(stream) for stream in streams if stream.kind == "group"]
        for group in groups:
            group.note_member(now_us, wants_order=wishes.get(group.stream))
        topics = {stream.topic: self.topic(stream) for stream in streams}.values()
        steps = [topic.tended(topic.trim(limit, now_us), now_us) for topic in topics]
        return KeptTopics(
            trimmed=sum(step.trimmed for step in steps),
            more=any(step.more for step in steps),
            holding=tuple(stream for step in steps for stream in step.holding),
            passed=tuple(stream for step in steps for stream in step.passed),
            disputed=tuple(group.stream for group in groups if group.ordering.is_disputed(now_us)),
            stalled=tuple(group.stream for group in groups if group.stalled),
        )

    # --- the path of a message ---------------------------------------------------------------------------

    def take(self, sources: Sequence[Stream], wanted: ClaimLimits, consumer: str, now_us: int) -> list[Claim]:
        shelves = self._open_shelves(sources, wanted.turn, now_us)
        with_children = [each for each in shelves if each[1].lanes.held_children] if wanted.children else []
        children = wanted.children

        room = CLAIM_BYTES

        def take_from(shelves: list[tuple[Stream, StreamState]], lane: int, limit: int) -> list[Claim]:
            nonlocal room
            claims: list[Claim] = []
            for source, shelf in shelves:
                if len(claims) >= limit or room <= 0:
                    break
                found = shelf.take(source, lane, limit - len(claims), room, consumer, now_us)
                room -= size_of(found)
                claims += found
            return claims

        def take(lane: int, limit: int) -> list[Claim]:
            nonlocal children
            if not with_children:
                return take_from(shelves, lane, limit)
            claims: list[Claim] = []
            for child_work in (True, False) if is_child_work_first(wanted.turn) else (False, True):
                most = limit - len(claims)
                if child_work:
                    taken = take_from(with_children, lane + CHILD, min(most, children))
                    children -= len(taken)
                else:
                    taken = take_from(shelves, lane, most)
                claims += taken
            return claims

        claims = take(SUSPECT, min(wanted.suspects, wanted.limit))
        for lane in wanted.lanes:
            if len(claims) == wanted.limit or room <= 0:
                break
            claims += take(lane, wanted.limit - len(claims))
        return claims

    def _open_shelves(
        self, sources: Sequence[Stream], turn: int, now_us: int
    ) -> list[tuple[Stream, StreamState]]:
        first = first_of(len(sources), turn)
        shelves = [(source, self.shelf(source)) for source in (*sources[first:], *sources[:first])]
        for _, shelf in shelves:
            if isinstance(shelf, GroupState) and not shelf.joined:
                shelf.note_member(now_us, wants_order=None)
        return [(source, shelf) for source, shelf in shelves if not shelf.paused]

    def settle(self, settlements: Sequence[Settlement], now_us: int) -> list[Verdict]:
        if not settlements:
            return []
        stream = settlements[0].claim.stream
        if not [each for each in settlements if each.claim.stream is not stream]:  # almost always
            return self.shelf(stream).settle_all(settlements, now_us)
        shelf = self.shelf
        return [shelf(each.claim.stream).settle(each.claim, each.outcome, now_us) for each in settlements]

    def restart_leases(self, streams: Iterable[Stream], now_us: int) -> None:
        for stream in streams:
            self.shelf(stream).restart_leases(now_us)

    def reclaim(self, sources: Sequence[Stream], limit: int, now_us: int) -> Reclaimed:
        recovered: list[Recovery] = []
        for source in sources:
            recovered += self.shelf(source).recover(source, limit - len(recovered), now_us)
        more = any(self.shelf(source).overdue(now_us) for source in sources)
        return Reclaimed(tuple(recovered), more)

    def promote(self, sources: Sequence[Stream], limit: int, now_us: int) -> Promoted:
        shelves = [self.shelf(source) for source in sources]
        for promoted in range(limit + 1):
            due = [(due_us, shelf) for shelf in shelves if (due_us := shelf.agenda.first_us()) is not None]
            if not due:
                return Promoted(promoted, None)
            due_us, shelf = min(due, key=lambda pair: pair[0])
            if due_us > now_us or promoted == limit:
                return Promoted(promoted, max(due_us - now_us, 0))
            shelf.promote(now_us)
        raise AssertionError("unreachable")

    def prune(self, limit: int, now_us: int) -> int:
        pruned = 0
        for shelf in self.shelves.values():
            pruned += shelf.prune(limit - pruned, now_us)
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

    def standing(self, streams: Sequence[Stream]) -> ControlState:
        shelves = self.shelves
        own = [shelf for stream in streams if (shelf := shelves.get(stream))]
        return ControlState(
            paused=frozenset(stream for stream, shelf in shelves.items() if shelf.paused),
            leases={shelf.stream: us for shelf in own if (us := shelf.lease.us) is not None},
        )

    def forget_worker(self, consumer: str) -> None:
        self._workers.pop(consumer, None)

    def workers(self, now_us: int) -> list[WorkerInfo]:
        return [seen.worker for seen in self._workers.values() if seen.until_us > now_us]


_shared: dict[tuple[str, str], SharedState] = {}
_shared_lock = threading.Lock()


def shared_store(namespace: str, name: str) -> SharedState:
    """The store of that name in this process. It exists as long as the process."""
    with _shared_lock:
        return _shared.setdefault((namespace, name), SharedState())
