"""Finds messages whose lease ran out, step by step, and takes them back from workers that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS, text_of
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import State, Stream, TrailEntry, encode_state
from headrace.core.messages.outcome import DeadReason
from headrace.core.records.answers import Reclaimed, Recovery
from headrace.core.records.record import JobStatus
from headrace.core.rules.clock_steps import ClockSteps
from headrace.core.rules.lease import DEFAULT_LEASE
from headrace.core.runtime.clock import SECOND, ClockWatch
from headrace.core.store import CRASH_LIMIT, NO_CRASH_LIMITS, crash_failure
from headrace.stores.redis.client.connection import Word
from headrace.stores.redis.entries import message_of, read_report, state_of
from headrace.stores.redis.keys import HELD, Lane
from headrace.stores.redis.scripts import OVERDUE, REBASE, RECOVER
from headrace.stores.redis.server.faults import lost
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import StreamScripts

from .scan_turns import HELD_SHARE, LEASE_OF_TURNS, ScanTurns

#: Messages that one script finds or takes, bytes of bodies that it moves, and held entries that it rebases.
#: To take a message needs about 25 µs of the server. Meanwhile it serves no other client.
MOST, BYTES, REBASE_LIMIT = 50, 1 << 20, 500

#: Scans between two questions to the server for its time.
TIME_EVERY = 8

#: Half a lease is this many times as long as the time between two turns.
HALF_LEASE_OF_TURNS = LEASE_OF_TURNS / 2


class Overdue(msgspec.Struct, frozen=True):
    """A message whose lease ran out, and the state that it gets when it is taken back."""

    lane: Lane
    entry: bytes
    worker: str
    id: str  # empty: the id cannot be read
    task: str
    state: State | None  # None: the state cannot be read

    def words(self, crash_limit: int) -> tuple[Word, ...]:
        if self.state is None:
            return self.lane, self.entry, self.id, "", "", ""
        buried: tuple[Word, ...] = ("", "")
        if self.state.crashes >= crash_limit:
            buried = DeadReason.CRASHED.value, msgspec.msgpack.encode(crash_failure(self.state.crashes))
        return self.lane, self.entry, self.id, encode_state(self.state), *buried


class Found(msgspec.Struct, frozen=True):
    """What a look at a stream found, and where the next look continues."""

    lease_ms: int
    lane: int
    after: bytes
    messages: list[Overdue]
    stepped_us: int


class Recoverer:
    """A scan remembers its place: the streams that are left, and the lane and entry in the first of them."""

    def __init__(self, store: RedisServer) -> None:
        self._store = store
        self._turns = ScanTurns(store)
        self._looking = asyncio.Lock()
        self._streams: Sequence[Stream] = ()
        self._left: list[Stream] = []  # to be looked at in this scan
        self._places: dict[Stream, tuple[int, bytes]] = {}
        self._every_us = 0
        self._after_outage = False
        self._crash_limits = NO_CRASH_LIMITS
        self._away: dict[Stream, int] = {}  # streams without a look in time, and since when
        self._began_us = 0  # when the scan began
        self._watches: dict[str, ClockWatch] = {}  # the clock of each server, by its run id
        self._stepped_us = 0
        self._clock_steps = ClockSteps()
        self._until_time = 1  # scans until the next question for the server's time

    async def reclaim(
        self,
        streams: Sequence[Stream],
        limit: int,
        every_us: int,
        *,
        after_outage: bool,
        crash_limits: Mapping[Stream, int],
    ) -> Reclaimed:
        # Several workers of one process share this object.
        async with self._looking:
            self._crash_limits = crash_limits
            return await self._reclaim(streams, limit, every_us, after_outage=after_outage)

    async def _reclaim(
        self, streams: Sequence[Stream], limit: int, every_us: int, *, after_outage: bool
    ) -> Reclaimed:
        self._left = [] if after_outage else [stream for stream in self._left if stream in streams]
        if not self._left and not await self._begin(streams, every_us, after_outage=after_outage):
            return Reclaimed(others_turn=True, stepped_us=self._seen_step())
        recovered = await self._look(limit)
        return Reclaimed(tuple(recovered), bool(self._left), stepped_us=self._seen_step())

    async def _begin(self, streams: Sequence[Stream], every_us: int, *, after_outage: bool) -> bool:
        """Begin a scan; False: it is another worker's turn."""
        if not streams:
            return True
        self._began_us = self._store.elapsed_us()
        self._clock_steps.note(streams, 0)
        stepped = await self._has_stepped(streams[0]) or self._clock_steps.concern(streams)
        if every_us and not (stepped or after_outage) and await self._turns.are_empty(streams):
            return True
        is_turn = not every_us or await self._turns.take(streams, every_us)
        if not is_turn and not after_outage:
            return False
        self._streams, self._every_us, self._after_outage = streams, every_us, after_outage or stepped
        if self._after_outage or not every_us:
            left = list(streams)
        else:
            left = await self._turns.to_look_at(streams, self._away)
            if not left and self._turns.error is not None:
                raise self._turns.error  # no request of this scan succeeded
        # Streams that could not be reached come last: each may take a while, and must not delay the others.
        self._left = sorted(left, key=lambda stream: stream in self._away)
        self._note_if_late(self._began_us)
        return True

    async def _look(self, limit: int) -> list[Recovery]:
        recovered: list[Recovery] = []
        errors: list[BackendUnavailable] = []
        looked_at = 0
        while self._left and len(recovered) < limit:
            stream = self._left[0]
            looked_at += 1
            try:
                recovered += await self._step(stream, min(MOST, limit - len(recovered)))
                self._away.pop(stream, None)
            except BackendUnavailable as error:
                self._places.pop(stream, None)
                self._store.pass_over(self._store.queue(stream), error)
                self._note_failure()
                errors.append(error)
            if stream in self._places:
                break
            self._left.pop(0)
        if errors and len(errors) == looked_at:
            raise errors[0]
        return recovered

    async def _step(self, stream: Stream, limit: int) -> list[Recovery]:
        queue, asked_us = self._store.queue(stream), self._store.elapsed_us()
        is_empty = not await self._store.command("HLEN", queue.keys.ids)
        # Connect first, if needed: the run id must be that of the server run that gets the call.
        run_id = "" if is_empty else await self._store.run_id(queue)
        self._note_if_late(asked_us)
        if is_empty:
            self._places.pop(stream, None)
            self._clock_steps.applied([stream])
            return []  # an empty stream costs one command; most streams are empty most of the time
        found = await self._overdue(queue, run_id, limit, after_outage=self._is_after_outage(stream))
        if found.stepped_us:
            # Apply the clock step to all streams now: the next look will not see it any more.
            self._note_step(found.stepped_us)
            self._after_outage = True
            self._left = [stream, *(each for each in self._streams if each != stream)]
            found = await self._overdue(queue, run_id, limit, after_outage=True)
        self._clock_steps.applied([stream])
        if found.lane < 0 or self._stepped_us < 0:
            await self._rebase(queue)
            return []
        if found.lane:
            self._places[stream] = (found.lane, found.after)
        return await self._take(queue, found.lease_ms, found.messages)

    async def _overdue(self, queue: StreamScripts, run_id: str, limit: int, *, after_outage: bool) -> Found:
        lane, after = self._places.pop(queue.stream, (1, b""))
        enough_us = round(self._every_us * HELD_SHARE)
        while True:
            args = (lane, after, limit, DEFAULT_LEASE, BYTES, enough_us, int(after_outage))
            asked_us = self._store.elapsed_us()
            now_us, lease_ms, lane, after, rows = await self._store.run(queue.call(OVERDUE, run_id, *args))
            if self._store.elapsed_us() - asked_us >= self._half_lease_us:
                name = queue.stream.name
                raise lost(f"the look for what was left in {name!r} took too long: it is made again")
            stepped_us = self._watch(run_id).step_us(now_us, asked_us)
            if rows or lane <= 0 or stepped_us:
                return Found(lease_ms, lane, after, [_overdue(row, now_us) for row in rows], stepped_us)

    async def _rebase(self, queue: StreamScripts) -> None:
        lane, after = 1, b""
        while lane:
            call = queue.call(REBASE, lane, after, REBASE_LIMIT, DEFAULT_LEASE)
            lane, after = await self._store.run(call)

    def _note_failure(self) -> None:
        """Note that a look at a stream failed. The streams that are left waited for it, and are late too."""
        for stream in self._left:
            self._away.setdefault(stream, self._began_us - self._every_us)

    def _note_if_late(self, asked_us: int) -> None:
        """Note a failure when an answer took so long that the server must have stood still."""
        if self._store.elapsed_us() - asked_us >= (self._every_us or DEFAULT_LEASE):
            self._note_failure()

    @property
    def _half_lease_us(self) -> float:
        return HALF_LEASE_OF_TURNS * self._every_us or DEFAULT_LEASE / 2

    # --- outages and clocks ------------------------------------------------------------------------------

    def _is_after_outage(self, stream: Stream) -> bool:
        """Whether leases of this stream begin anew: after an outage, or after the clock was set. An outage
        may concern this stream alone: its node could not be reached for half a lease, or the stream waited
        behind a stream of such a node."""
        if self._after_outage or self._clock_steps.concern([stream]):
            return True
        since_us = self._away.get(stream, inf)
        return self._store.elapsed_us() - since_us >= self._half_lease_us

    async def _has_stepped(self, stream: Stream) -> bool:
        """Whether the server's clock was set. Each look at a stream that is not empty finds this out as well;
        this question is for empty streams. The nodes of a cluster have no common clock."""
        self._until_time = (self._until_time or TIME_EVERY) - 1
        if self._store.is_cluster or self._until_time:
            return self._stepped_us != 0
        run_id = await self._store.run_id(self._store.queue(stream))
        asked_us = self._store.elapsed_us()
        seconds, microseconds = await self._store.command("TIME")
        self._store.learn_time(seconds, microseconds)
        now_us = int(seconds) * SECOND + int(microseconds) + self._store.offset_us()
        # A step that was seen before, and not told because of an error, counts as well.
        if stepped_us := self._watch(run_id).step_us(now_us, asked_us):
            self._note_step(stepped_us)
        return self._stepped_us != 0

    def _note_step(self, stepped_us: int) -> None:
        self._stepped_us = stepped_us
        self._clock_steps.note([], stepped_us)

    def _watch(self, run_id: str) -> ClockWatch:
        return self._watches.setdefault(run_id, ClockWatch(self._store.elapsed_us))

    def _seen_step(self) -> int:
        stepped_us, self._stepped_us = (self._stepped_us, 0) if not self._left else (0, self._stepped_us)
        return stepped_us

    async def _take(self, queue: StreamScripts, lease_ms: int, overdue: list[Overdue]) -> list[Recovery]:
        if not overdue:
            return []
        most = self._crash_limits.get(queue.stream, CRASH_LIMIT)
        words = [word for each in overdue for word in each.words(most)]
        answers = await self._store.run(queue.call(RECOVER, lease_ms, *words))
        return [
            Recovery(
                queue.stream,
                each.id,
                each.task,
                each.worker,
                each.state.crashes if each.state else 0,
                JobStatus(answer.decode()),
            )
            for each, answer in zip(overdue, answers, strict=True)
            if answer
        ]


def _overdue(row: list[Any], now_us: int) -> Overdue:
    number, entry, consumer, fields, report = row
    lane: Lane = HELD if isinstance(number, bytes) else number
    worker, message = text_of(consumer), message_of(fields)
    try:
        id = message.get(b"i", b"").decode()
    except DECODE_ERRORS:
        id = ""
    try:
        state = (
            state_of(message).crashed(TrailEntry(now_us, "crashed", worker)).logged(read_report(report)[1])
        )
    except DECODE_ERRORS:
        state = None
    return Overdue(lane, entry, worker, id, text_of(message.get(b"t", b"")), state)
