"""All streams of a store, its workers and its traffic: what a process has in memory of the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count

import msgspec

from headrace.store import (
    CLAIM_BYTES,
    CRASH_LIMIT,
    KEPT_MINUTES,
    MINUTE,
    WORKER_TTL_US,
    Claim,
    ControlMessage,
    ControlState,
    KeptTopics,
    Promoted,
    Reclaimed,
    Recovery,
    ScheduleNotice,
    ScheduleSwap,
    Start,
    Stream,
    Swapped,
    TrafficCount,
    TrafficRecord,
    WorkerInfo,
    first_of,
    is_child_work_first,
    is_from_bottom,
)

from .group import GroupState
from .messages import CHILD, FIRST_PRIORITY, RETURNED, SUSPECT, Surroundings, passed_in
from .outbox import OutboxState
from .stream import StreamState
from .topic import TopicState

TOP_DOWN = tuple(range(FIRST_PRIORITY, CHILD))


class ClaimLimits(msgspec.Struct, frozen=True):
    """How much a claim wants at most. `turn` counts the claims of a process."""

    turn: int
    limit: int
    suspects: int
    children: int

    @property
    def lanes(self) -> Iterable[int]:
        """The lanes behind that of the suspects, in the order in which they are taken from."""
        return (RETURNED, *(reversed(TOP_DOWN) if is_from_bottom(self.turn) else TOP_DOWN))


class SeenWorker(msgspec.Struct, frozen=True):
    worker: WorkerInfo
    until_us: int


class StoreState:
    """Only steps change it (`steps.py`). What only looks uses `find`, which makes nothing."""

    def __init__(
        self, announce: Callable[[ControlMessage], None], ended: Callable[[Stream, str], None]
    ) -> None:
        self.streams: dict[Stream, StreamState] = {}
        self.workers: dict[str, SeenWorker] = {}
        self.outboxes: dict[Stream, OutboxState] = {}  # an outbox stays when its group is removed
        self._traffic: dict[int, dict[Stream, TrafficCount]] = {}  # by minute
        # One counter for all, so that a group that is removed and joined again gives out no token twice.
        self._around = Surroundings(count(1), announce, ended)

    # --- streams -----------------------------------------------------------------------------------------

    def find(self, stream: Stream) -> StreamState:
        """The stream, or an empty one that is not kept."""
        return self.streams.get(stream) or self._new(stream, self.find)

    def make(self, stream: Stream) -> StreamState:
        """The stream, which is made if need be. A group that was removed comes back by `join` alone."""
        found = self.streams.get(stream) or self._new(stream, self.make)
        if not (isinstance(found, GroupState) and found.removed):
            self.streams[stream] = found
        return found

    def _new(self, stream: Stream, find: Callable[[Stream], StreamState]) -> StreamState:
        match stream.kind:
            case "queue":
                return StreamState(stream, self._around)
            case "topic":
                return TopicState(stream, self._around)
            case "group":
                topic = find(Stream("topic", stream.topic))
                assert isinstance(topic, TopicState)
                return GroupState(stream, self._around, topic)

    def topic(self, stream: Stream) -> TopicState:
        """A topic, or the topic of a group."""
        topic = self.make(Stream("topic", stream.topic))
        assert isinstance(topic, TopicState)
        return topic

    def group(self, stream: Stream) -> GroupState:
        group = self.make(stream)
        assert isinstance(group, GroupState)
        return group

    def declare(self, stream: Stream, lease_us: int, now_us: int) -> int | None:
        declared = self.streams[stream] = self.make(stream)
        return declared.declare(lease_us, now_us)

    def remove(self, stream: Stream) -> bool:
        found = self.streams.get(stream)
        if found is None or (stream.kind != "group" and (found.in_use or self._forwards(stream))):
            return False
        del self.streams[stream]
        if not isinstance(found, GroupState):
            return found.established
        if not found.joined:
            return False
        found.topic.removed.add(stream.group)
        del found.topic.groups[stream.group]
        found.leave()
        return True

    def _forwards(self, stream: Stream) -> bool:
        outbox = self.outboxes.get(stream)
        return outbox is not None and bool(outbox.entries)

    # --- the path of a message ---------------------------------------------------------------------------

    def is_claimable(self, streams: Sequence[Stream], limits: ClaimLimits) -> bool:
        """Whether a claim would change anything."""
        lanes = [*limits.lanes, *([SUSPECT] if limits.suspects else [])]
        lanes += [lane + CHILD for lane in lanes] if limits.children else []
        return any(
            any(state.lanes[lane] for lane in lanes) or (isinstance(state, GroupState) and state.may_draw)
            for state in self._open(streams)
        )

    def claim(
        self, streams: Sequence[Stream], limits: ClaimLimits, consumer: str, now_us: int
    ) -> list[Claim]:
        first = first_of(len(streams), limits.turn)
        for state in self._open(streams):
            if isinstance(state, GroupState) and not state.joined:
                self.group(state.stream).note_member(now_us, wants_order=None)
        states = self._open([*streams[first:], *streams[:first]])
        claims: list[Claim] = []
        children = limits.children
        for lane in (SUSPECT, *limits.lanes):
            most = min(limits.suspects, limits.limit) if lane == SUSPECT else limits.limit
            for is_child in (True, False) if is_child_work_first(limits.turn) else (False, True):
                limit = min(most, len(claims) + children) if is_child else most
                before = len(claims)
                for state in states:
                    room = CLAIM_BYTES - sum(len(claim.body) for claim in claims)
                    if len(claims) < limit and room > 0:
                        of_kind = lane + CHILD if is_child else lane
                        claims += state.take(of_kind, limit - len(claims), room, consumer, now_us)
                children -= (len(claims) - before) * is_child
        return claims

    def _open(self, streams: Iterable[Stream]) -> list[StreamState]:
        return [state for stream in streams if not (state := self.find(stream)).paused]

    # --- upkeep ------------------------------------------------------------------------------------------

    def needs_reclaim(self, streams: Sequence[Stream], now_us: int) -> bool:
        states = [self.find(stream) for stream in streams]
        return any(state.is_overdue(now_us) or state.is_ahead(now_us) for state in states)

    def reclaim(
        self, streams: Sequence[Stream], limit: int, now_us: int, crash_limits: Mapping[Stream, int]
    ) -> Reclaimed:
        recovered: list[Recovery] = []
        for stream in streams:
            most = crash_limits.get(stream, CRASH_LIMIT)
            recovered += self.find(stream).recover(limit - len(recovered), now_us, most)
        return Reclaimed(tuple(recovered), self.needs_reclaim(streams, now_us))

    def next_due(self, streams: Sequence[Stream]) -> tuple[int, StreamState] | None:
        """When something is due, and where."""
        states = [self.find(stream) for stream in streams]
        due = [(state.due[0][0], state) for state in states if state.due]
        return min(due, key=lambda pair: pair[0], default=None)

    def promote(self, streams: Sequence[Stream], limit: int, now_us: int) -> Promoted:
        promoted = 0
        while due := self.next_due(streams):
            due_us, state = due
            if due_us > now_us or promoted == limit:
                return Promoted(promoted, max(due_us - now_us, 0))
            state.promote(now_us)
            promoted += 1
        return Promoted(promoted, None)

    def needs_prune(self, now_us: int) -> bool:
        return any(seen.until_us <= now_us for seen in self.workers.values()) or any(
            passed_in(table, now_us)
            for stream in self.streams.values()
            for table in (stream.end_records, stream.keys, stream.producers)
        )

    def prune(self, limit: int, now_us: int) -> int:
        pruned = 0
        for stream in self.streams.values():
            pruned += stream.prune(limit - pruned, now_us)
        silent = [name for name, seen in self.workers.items() if seen.until_us <= now_us]
        for name in silent[: limit - pruned]:
            del self.workers[name]
            pruned += 1
        return pruned

    # --- workers and traffic -----------------------------------------------------------------------------

    def beat(self, worker: WorkerInfo, now_us: int) -> None:
        self.workers[worker.consumer] = SeenWorker(worker, now_us + WORKER_TTL_US)

    def control_state(self, streams: Sequence[Stream]) -> ControlState:
        own = [self.find(stream) for stream in streams]
        return ControlState(
            paused=frozenset(name for name, stream in self.streams.items() if stream.paused),
            leases={stream.stream: us for stream in own if (us := stream.lease.us) is not None},
        )

    def count_traffic(self, tallies: Sequence[TrafficCount], now_us: int) -> None:
        minute = now_us // MINUTE
        counts = self._traffic.setdefault(minute, {})
        for tally in tallies:
            old = counts.get(tally.stream, TrafficCount(tally.stream))
            counts[tally.stream] = TrafficCount(
                tally.stream, old.done + tally.done, old.failed + tally.failed, old.dead + tally.dead
            )
        for old_minute in [each for each in self._traffic if each <= minute - KEPT_MINUTES]:
            del self._traffic[old_minute]

    def traffic(self, minutes: int, now_us: int) -> list[TrafficRecord]:
        last = now_us // MINUTE
        window = [self._traffic.get(minute, {}) for minute in range(last - minutes + 1, last + 1)]
        streams = sorted({stream for counts in window for stream in counts}, key=lambda each: each.name)
        records: list[TrafficRecord] = []
        for stream in streams:
            counts = [minute.get(stream, TrafficCount(stream)) for minute in window]
            done, failed, dead = zip(*((each.done, each.failed, each.dead) for each in counts), strict=True)
            records.append(TrafficRecord(stream, done, failed, dead))
        return records

    # --- schedules ---------------------------------------------------------------------------------------

    def swap_schedule(self, swap: ScheduleSwap, now_us: int) -> Swapped:
        stored = self.find(swap.stream).schedules.get(swap.name)
        if swap.is_refused(stored, now_us):
            return Swapped(False, stored)
        stream, record = self.make(swap.stream), swap.record_at(now_us)
        if record is None:
            stream.schedules.pop(swap.name, None)
        else:
            stream.established = True
            stream.schedules[swap.name] = record
            if swap.messages:
                stream.append(swap.batch(record), now_us)
        if swap.announce:
            self._around.announce(ScheduleNotice(swap.stream))
        return Swapped(True, record)

    # --- topics ------------------------------------------------------------------------------------------

    def join(self, stream: Stream, start: Start, *, ordered: bool, now_us: int) -> bool:
        group = self.group(stream)
        new = group.join(start, ordered=ordered, now_us=now_us)
        self.streams[stream] = group
        return new

    def topics(self, names: Sequence[str] | None) -> list[TopicState]:
        topics = [each for each in self.streams.values() if isinstance(each, TopicState) and each.established]
        wanted = [each for each in topics if names is None or each.stream.name in names]
        return sorted(wanted, key=lambda each: each.stream.name)

    def keep_topics(
        self, streams: Sequence[Stream], wants_order: Mapping[str, bool], limit: int, now_us: int
    ) -> KeptTopics:
        """`wants_order`: whether the member wants a group to be ordered, by the name of its stream."""
        groups = [self.group(stream) for stream in streams if stream.kind == "group"]
        for group in groups:
            group.note_member(now_us, wants_order=wants_order.get(group.stream.name))
        topics = {stream.topic: self.topic(stream) for stream in streams}.values()
        kept = [topic.kept(topic.trim(limit, now_us), now_us) for topic in topics]
        return KeptTopics(
            trimmed=sum(each.trimmed for each in kept),
            more=any(each.more for each in kept),
            holding=tuple(stream for each in kept for stream in each.holding),
            passed=tuple(stream for each in kept for stream in each.passed),
            disputed=tuple(group.stream for group in groups if group.ordering.is_disputed(now_us)),
            stalled=tuple(group.stream for group in groups if group.stalled),
        )
