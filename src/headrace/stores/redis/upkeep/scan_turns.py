"""Decides which worker looks for leases that ran out: one at a time of all workers with the same streams."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import chain, islice
from math import inf

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Stream
from headrace.core.records.record import WORKER_TTL_US
from headrace.core.runtime.clock import SECOND
from headrace.stores.redis.server.faults import is_out_of_memory
from headrace.stores.redis.server.server import RedisServer

from .workers import read_worker

#: Streams that one turn looks at. With more streams, the turns take them in rotation: an idle stream costs
#: commands as well.
FEW = 6

#: Microseconds after its last announcement (every 2.5 s) after which a worker counts as gone.
GONE_AFTER = 8 * SECOND

#: A turn is over after this share of the time between two turns: its worker then looks again.
HELD_SHARE = 0.9

#: No other worker gets the turn for this many times the time between two turns. The worker that has it asks
#: again before that. In a large fleet other workers ask all the time, and a worker that is new to the turn
#: looks at nothing: if the turn moved on each time, no worker would ever look.
KEPT_SHARE = 1.25

#: A worker that had no turn for this many times the time between two turns counts as new to it.
NEW_AFTER = 2.5

#: A lease is this many times as long as the time between two turns.
LEASE_OF_TURNS = 5


class ScanTurns:
    """A worker takes the turn with a key that expires, so that asking costs one request. It keeps the turn
    for as long as it asks in time.

    A worker that is new to the turn does nothing the first time. After an outage, live workers renew their
    leases within a second; a worker that did not see the outage must not be faster. It then looks at all
    streams, and again after one lease: by then the leases of workers that are no longer listed have run out.
    """

    def __init__(self, store: RedisServer) -> None:
        self._store = store
        self._name = new_id()
        self._taken: dict[str, int] = {}  # the key that was taken last, and when
        self._had_at: int | None = None  # the last turn, or the last time that all streams were empty
        self._looks_at_all: list[int] = []  # times of the two full looks after the turn came to this worker
        self._gone: dict[Stream, int] = {}  # streams of gone workers, and until when to look at them
        self._long_us = 0  # time in which every lease runs out, and a turn comes
        self._next = 0
        #: Why the turn could not be asked for.
        self.error: BackendUnavailable | None = None

    async def are_empty(self, streams: Sequence[Stream]) -> bool:
        """Whether all streams are empty, so that no worker need take the turn. Costs one command. Always
        False on a cluster, where no command may ask about all streams."""
        if self._store.is_cluster:
            return False
        keys = [self._store.queue(stream).keys.ids for stream in streams]
        if await self._store.command("EXISTS", *keys):
            return False
        self._had_at = self._store.elapsed_us()  # this look at all streams counts as a turn
        self._looks_at_all = []
        return True

    async def take(self, streams: Sequence[Stream], every_us: int) -> bool:
        """Try to take the turn; answers whether this worker has it."""
        key = self._store.keys.turn(list(streams))
        if self._store.elapsed_us() - self._taken.get(key, -inf) < every_us * HELD_SHARE:
            return False
        self.error = None
        try:
            has_turn = await self._ask(key, every_us)
        except BackendUnavailable as error:
            # On a cluster, an error of the node with this key says nothing about the other nodes.
            self._store.pass_over(self._store.queue(streams[0]), error)
            self.error, has_turn = error, True
        if not has_turn:
            return False
        now_us = self._store.elapsed_us()
        self._long_us = (LEASE_OF_TURNS + 1) * every_us
        # When the turn cannot be taken, no other worker has it: this worker is not new to it, however long
        # the attempt took.
        longest_us = inf if self.error else NEW_AFTER * every_us
        if self._had_at is None or now_us - self._had_at > longest_us:
            self._looks_at_all = [now_us + every_us // 2, now_us + self._long_us]
        self._had_at = now_us
        self._taken = {} if self.error else {key: now_us}
        return True

    async def _ask(self, key: str, every_us: int) -> bool:
        kept_ms = max(1, round(every_us * KEPT_SHARE / 1000))
        taken, holder = await self._store.commands(
            ("SET", key, self._name, "NX", "PX", kept_ms), ("GET", key), tolerates=is_out_of_memory
        )
        if taken is None and holder == self._name.encode():
            await self._store.command("PEXPIRE", key, kept_ms)
            return True
        return taken is not None

    async def to_look_at(self, streams: Sequence[Stream], known: Container[Stream]) -> list[Stream]:
        """The streams to look at in this turn, among them the `known` ones that had errors."""
        assert self._had_at is not None
        if len(self._looks_at_all) == 2 and self._had_at < self._looks_at_all[0]:
            return []
        if self._looks_at_all and self._had_at >= self._looks_at_all[0]:
            self._looks_at_all.pop(0)
            return list(streams)
        if len(streams) <= FEW:
            return list(streams)
        # A long lease runs out only after its worker is no longer listed.
        self._gone |= dict.fromkeys(await self._left_by_the_gone(streams), self._had_at + self._long_us)
        self._gone = {stream: until for stream, until in self._gone.items() if until >= self._had_at}
        urgent = [stream for stream in streams if stream in self._gone or stream in known]
        some = islice(chain(streams[self._next :], streams), FEW)
        self._next = (self._next + FEW) % len(streams)
        return list(dict.fromkeys([*urgent, *some]))

    async def _left_by_the_gone(self, streams: Sequence[Stream]) -> set[Stream]:
        """The streams of workers that no longer announce themselves."""
        try:
            workers: list[bytes] = await self._store.command("HGETALL", self._store.keys.workers)
        except BackendUnavailable as error:
            self._store.pass_over(self._store.queue(streams[0]), error)
            return set()
        latest_us = self._store.now_us() + WORKER_TTL_US - GONE_AFTER
        left: set[Stream] = set()
        for value in workers[1::2]:
            seen = read_worker(value)
            if seen is not None and seen.until_us < latest_us:
                left.update(seen.worker.streams)
        return left
