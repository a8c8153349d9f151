"""Claims what queues hold now, without waiting: a script reads a little of each lane, plain commands read the
rest."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeAlias

from headrace.core.encoding.decoding import text_of
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim, size_of
from headrace.core.messages.message import Stream
from headrace.stores.redis.client.connection import Link, Word, pack
from headrace.stores.redis.keys import (
    BOTTOM_UP,
    CHILD_LANES,
    GROUP,
    HELD,
    RETURNED,
    TOP_DOWN,
    Lane,
    has_lines,
)
from headrace.stores.redis.scripts import CLAIM, CLAIM_LINES
from headrace.stores.redis.server.faults import is_out_of_memory
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import ScriptCall, StreamScripts

from .change_tokens import ChangeTokens
from .claim_request import ClaimRequest
from .drawing import EventDrawer
from .hand_outs import HandOuts

#: Entries that the script reads from one lane. A plain command reads the rest: to convert entries in Lua
#: costs the server as much again as to read them.
PORTION = 16

#: Entries that the script reads from one lane when the server is far away: then a round trip costs more.
PORTION_AFAR = 500

#: Bytes from which on a few large messages are worth another round trip.
WORTH_A_TRIP = 1 << 18

#: Seconds for which the script's answer on how many a plain command may read is valid: newer messages may be
#: larger.
FRESH = 0.05

#: Where the answer of the script says which lanes are in use, and that there are lines.
USED, HAS_LINES = 3, 8

#: A queue, how many of its messages a plain command reads at once, and the most bytes that one of them has.
StreamShare: TypeAlias = tuple[StreamScripts, int, int]


class QueuePoll:
    """`paused` is shared with the store; an answer of the script updates it."""

    def __init__(
        self, store: RedisServer, link: Link, consumer: str, paused: set[Stream], handouts: HandOuts
    ) -> None:
        self._store = store
        self._link = link
        self._consumer = consumer
        self._paused = paused
        self._handouts = handouts
        self._is_far = False  # the last answer took long
        self.drawer = EventDrawer(store, link)
        self.tokens = ChangeTokens(link)

    async def poll(self, wanted: ClaimRequest) -> tuple[list[Claim], bool]:
        """Claim what the queues hold; also answers whether events were drawn."""
        waits = wanted.wait > 0 or wanted.awaited > 0
        calls = (*self.drawer.calls(wanted.queues, wanted.limit, waits=waits), self._call(wanted))
        asked_at = time.monotonic()
        *draws, reply = await self._store.run_all(calls, self._link, tolerates=is_out_of_memory)
        self._is_far = time.monotonic() > asked_at + FRESH
        self._store.check([reply], self._link)
        drawn = await self.drawer.note(wanted.queues, draws)
        self._note_lanes(wanted, reply[USED])
        if reply[HAS_LINES]:
            reply = await self._store.run(self._call(wanted), self._link)
        seconds, microseconds, paused, _, reads, further, lane, tokens, _ = reply
        if seconds:
            self._store.learn_time(seconds, microseconds)
        self._paused.difference_update(queue.stream for queue in wanted.queues)
        self._paused.update(wanted.queues[index - 1].stream for index in paused)
        self.tokens.note(wanted.queues, tokens)
        claims: list[Claim] = []
        for index, read_lane, entries in reads:
            lane_read: Lane = HELD if isinstance(read_lane, bytes) else read_lane
            claims += self._handouts.claims(wanted.queues[index - 1], lane_read, entries)
        shares = [(wanted.queues[index - 1], count, bound) for index, count, bound in further]
        while shares and time.monotonic() < asked_at + FRESH:
            found = await self._read_further(lane, shares)
            claims += [claim for each in found for claim in each]
            left, room = wanted.limit - len(claims), wanted.room - size_of(claims)
            if lane in CHILD_LANES:
                left = min(left, wanted.children - sum(claim.child for claim in claims))
            shares = _further(shares, found, left=left, room=room)
        return claims, drawn

    def _call(self, wanted: ClaimRequest) -> ScriptCall:
        keys = [key for queue in wanted.queues for key in (*queue.keys.lanes, queue.keys.meta)]
        lanes = (RETURNED, *(BOTTOM_UP if wanted.from_bottom else TOP_DOWN))
        kinds = "".join(queue.stream.kind[0] for queue in wanted.queues)
        portion = PORTION_AFAR if self._is_far else PORTION
        limits = (wanted.limit, wanted.suspects, wanted.room, portion)
        children = (wanted.children, int(wanted.children_first), wanted.awaited)
        args: tuple[Word, ...] = (
            *(GROUP, self._consumer, *limits, kinds),
            *(*children, wanted.constrained, *lanes),
        )
        script = CLAIM
        if wanted.constrained and self._has_lines(wanted):
            script = CLAIM_LINES
            keys += [queue.limits for queue in wanted.queues]
            first = wanted.queues[0]
            labels = [queue.label for queue in wanted.queues]
            args += (int(wanted.odd_constrained), *labels, first.notices, first.offset_us())
        return ScriptCall(script, pack((b"EVALSHA", script.digest, len(keys), *keys, *args)))

    def _has_lines(self, wanted: ClaimRequest) -> bool:
        return any(has_lines(self._store.lanes.get(queue, "")) for queue in wanted.queues)

    def _note_lanes(self, wanted: ClaimRequest, used: Sequence[tuple[int, bytes]]) -> None:
        self._store.lanes.update((wanted.queues[index - 1], text_of(lanes)) for index, lanes in used)

    async def _read_further(self, lane: int, shares: Sequence[StreamShare]) -> list[list[Claim]]:
        """Read the share of each queue with a plain command."""
        head = ("XREADGROUP", "GROUP", GROUP, self._consumer, "COUNT")
        commands = [
            pack((*head, count, "STREAMS", queue.keys.by_lane[lane], ">")) for queue, count, _ in shares
        ]
        try:
            replies = await self._link.ask(b"".join(commands), len(commands))
        except BackendUnavailable:
            self._handouts.doubtful = True  # no error: the claims of the script are kept
            return [[] for _ in shares]
        return [
            self._handouts.claims(queue, lane, reply[0][1]) if isinstance(reply, list) else []
            for (queue, _, _), reply in zip(shares, replies, strict=True)
        ]


def _further(
    shares: Sequence[StreamShare], found: Sequence[list[Claim]], *, left: int, room: int
) -> list[StreamShare]:
    """The next shares, of queues that may hold more, where they are worth a round trip."""
    full = [
        (queue, bound)
        for (queue, count, bound), claims in zip(shares, found, strict=True)
        if len(claims) == count
    ]
    return [
        (queue, count, bound)
        for queue, bound in full
        if (count := min(left, room // bound) // len(full)) >= PORTION or count * bound >= WORTH_A_TRIP
    ]
