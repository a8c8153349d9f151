"""Finds messages whose lease ran out, step by step, and takes them from workers that are gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.core.backend import CRASH_LIMIT, CRASHED, Reclaimed, Recovery
from headrace.core.clock import SECOND
from headrace.core.errors import BackendUnavailable
from headrace.core.message import Source, State, Stream, Trouble, encode_state
from headrace.core.outcome import DeadReason
from headrace.core.record import JobStatus

from .connection import Word
from .entries import message_of, read_said, state_of
from .queue import Queue
from .scripts import OVERDUE, RECOVER
from .store import Store

#: The lease of a stream that nobody has ensured yet, in microseconds.
DEFAULT_LEASE = 15 * SECOND

#: Held entries that one step looks at, and bytes of bodies that it moves.
SCAN_LIMIT, BYTES = 500, 1 << 20

_FAILURE = msgspec.msgpack.encode(CRASHED)


class Overdue(msgspec.Struct, frozen=True):
    """A message beyond its lease, and the state it will have when it is taken."""

    lane: int
    entry: bytes
    worker: str
    message: dict[bytes, bytes]
    state: State

    @property
    def words(self) -> tuple[Word, ...]:
        dead = self.state.crashes >= CRASH_LIMIT
        buried: tuple[Word, ...] = (DeadReason.CRASHED.value, _FAILURE) if dead else ("", "")
        return self.lane, self.entry, self.message.get(b"i", b""), encode_state(self.state), *buried


class Recoverer:
    """The scan keeps its place: the queue it has come to, and in that queue the lane and entry."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._done: set[Stream] = set()  # queues looked through since the scan last came round
        self._places: dict[Stream, tuple[int, bytes]] = {}

    async def reclaim(self, sources: Sequence[Source], limit: int) -> Reclaimed:
        recovered: list[Recovery] = []
        troubles: list[BackendUnavailable] = []
        waiting = [source for source in sources if source.stream not in self._done]
        for source in waiting:
            try:
                recovered += await self._step(source, limit - len(recovered))
            except BackendUnavailable as error:
                self._store.pass_over(self._store.queue(source.stream), error)
                troubles.append(error)
                self._done.add(source.stream)
            if len(recovered) >= limit or source.stream not in self._done:
                break
        more = any(source.stream not in self._done for source in sources)
        if not more:
            self._done.difference_update(source.stream for source in sources)
        if troubles and len(troubles) == len(waiting):
            raise troubles[0]
        return Reclaimed(tuple(recovered), more)

    async def _step(self, source: Source, limit: int) -> list[Recovery]:
        queue = self._store.queue(source.stream)
        lane, after = self._places.pop(source.stream, (1, b""))
        # First connect, if need be: the id must be that of the run which gets the call.
        run_id = await self._store.run_id(queue)
        call = queue.call(OVERDUE, run_id, lane, after, limit, SCAN_LIMIT, DEFAULT_LEASE, BYTES)
        now_us, lease_ms, lane, after, rows = await self._store.run(call)
        recovered = await self._take(queue, source, lease_ms, [_overdue(row, now_us) for row in rows])
        if lane:
            self._places[source.stream] = (lane, after)
        else:
            self._done.add(source.stream)
        return recovered

    async def _take(
        self, queue: Queue, source: Source, lease_ms: int, overdue: list[Overdue]
    ) -> list[Recovery]:
        if not overdue:
            return []
        words = [word for each in overdue for word in each.words]
        answers = await self._store.run(queue.call(RECOVER, lease_ms, *words))
        return [
            Recovery(
                source,
                each.message[b"i"].decode(),
                each.message[b"t"].decode(),
                each.worker,
                each.state.crashes,
                JobStatus(answer.decode()),
            )
            for each, answer in zip(overdue, answers, strict=True)
            if answer
        ]


def _overdue(row: list[Any], now_us: int) -> Overdue:
    lane, entry, consumer, fields, said = row
    worker, message = consumer.decode(), message_of(fields)
    state = state_of(message).crashed(Trouble(now_us, "crashed", worker)).logged(read_said(said)[1])
    return Overdue(lane, entry, worker, message, state)
