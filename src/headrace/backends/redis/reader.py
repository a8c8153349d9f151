"""Claims for one consumer, on a connection of its own: a script under load, a blocking read when idle.

A read is never cancelled in flight: it runs as a task of the reader, and what it brings after its caller has
gone is offered to the next. Entries of a lane are handed out in ascending order, so whatever this consumer
holds beyond the last entry it saw was handed out by a read whose answer was lost, and is taken up after any
error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from hiredis import ReplyError

from headrace.core.claim import Claim
from headrace.core.errors import BackendUnavailable
from headrace.core.message import Stream

from .connection import Wire, pack
from .drawing import Drawer
from .entries import claims_of
from .faults import can_heal, is_out_of_memory
from .keys import BOTTOM_UP, GROUP, LANES, RETURNED, SUSPECT, TOP_DOWN
from .notices import Notices
from .queue import Call, Queue
from .scripts import AGAIN, CLAIM, ENSURE, STARTED, UNSEEN
from .store import Store

#: Seconds that a read blocks at most.
BLOCK = 2.0

#: Entries that the script reads from one lane before it leaves the rest to a plain command: to convert them
#: in Lua costs the server as much again as to read them.
PORTION = 16

#: Every so many claims take the priorities from the bottom.
BOTTOM_TURN = 10

#: Bytes that one claim should bring at most, judged by the bodies that came before.
BYTES = 4 << 20

#: Seconds: an answer that is so much later than it could be lay here while this process stood still, and what
#: it brought may belong to others by now.
LATE = 0.25

#: Seconds after which a read is unblocked again that was not yet blocked.
UNBLOCK_AGAIN = 0.005


class Wanted(msgspec.Struct, frozen=True):
    """What one claim asks for; the queue whose turn it is comes first."""

    queues: Sequence[Queue]
    limit: int
    suspects: int
    wait: float
    from_bottom: bool


def wanted(queues: Sequence[Queue], *, limit: int, suspects: int, wait: float, turn: int) -> Wanted:
    # Turns that start from the bottom must not all begin with the same queue.
    first = (turn + turn // BOTTOM_TURN) % len(queues) if queues else 0
    return Wanted((*queues[first:], *queues[:first]), limit, suspects, wait, turn % BOTTOM_TURN == 0)


class Reader:
    """`paused` is shared with the backend, which hears of changes. On a cluster `queue` is one of those that
    it reads, which are all on the same node."""

    def __init__(self, store: Store, consumer: str, paused: set[Stream], queue: Queue | None = None) -> None:
        self._store = store
        self._consumer = consumer
        self._paused = paused
        self._link = store.new_link(queue=queue)
        self._turns = asyncio.Lock()
        self._task: asyncio.Task[list[Claim]] | None = None
        self._blocking: Wire | None = None
        self._stirred = asyncio.Event()  # what was known before may no longer hold
        self._wake_asked = False
        self._leaving = False  # nobody waits for the read under way
        self._kept: list[Claim] = []  # read, and not handed out
        self._seen: dict[Queue, list[bytes]] = {}  # the last entry of each lane
        self._doubtful = False  # the answer of a read was lost
        self._idle = False  # the last read waited in vain
        self._body_size = 0.0
        self._notices = Notices()
        self._drawer = Drawer(store, self._link)

    # --- for the backend ---------------------------------------------------------------------------------

    async def claim(self, wanted: Wanted) -> list[Claim]:
        async with self._turns:
            await self._abandoned()
            self._task = asyncio.create_task(self._read(wanted))
            try:
                claims = await asyncio.shield(self._task)
            except asyncio.CancelledError:
                self._leave()
                raise
            except BaseException:
                self._task = None
                raise
            self._task = None
            return claims

    def wake(self) -> None:
        self._wake_asked = True
        self.stir()

    @property
    def is_busy(self) -> bool:
        """Whether a read is under way whose caller has gone."""
        return self._task is not None and not self._task.done()

    def end_wait(self) -> None:
        """Have the read under way end, although nothing has changed for it."""
        self._wake_asked = True
        self._unblock()

    def begin_anew(self) -> None:
        """Whoever was to end has ended."""
        self._wake_asked = False

    @property
    def is_idle(self) -> bool:
        """Whether the last read waited in vain, and nothing has happened since."""
        return self._idle and self.is_free

    @property
    def is_free(self) -> bool:
        """Whether nothing is under way, and nothing was read that nobody has."""
        return self._task is None and not self._kept and not self._doubtful

    def close(self) -> None:
        self._link.drop()

    def stir(self) -> None:
        """Have the read under way look anew."""
        self._idle = False
        self._stirred.set()
        self._unblock()

    async def stop(self) -> None:
        """End the read under way, hand back what nobody took, and close the connection."""
        self.wake()
        async with self._turns:
            await self._abandoned()
            kept, self._kept = self._kept, []
            await self.hand_back(kept)
            self.close()

    async def _abandoned(self) -> None:
        """Wait for a read whose caller is gone, and keep what it brought. Its error was that caller's."""
        if self._task is None:
            return
        self._leave()
        await asyncio.wait([self._task])
        self._leaving = False
        task, self._task = self._task, None
        if not task.cancelled() and task.exception() is None:
            self._kept += task.result()

    def _leave(self) -> None:
        """Have the read under way end: nobody waits for it."""
        self._leaving = True
        self._stirred.set()
        self._unblock()

    def _unblock(self) -> None:
        """End a blocking read, if there is one."""
        if self._blocking is None or not self._blocking.client_id:
            return
        wire = self._store.beside(self._blocking)
        if wire is not None:
            answer = wire.send(pack(("CLIENT", "UNBLOCK", self._blocking.client_id)))
            answer.add_done_callback(self._unblock_again)

    def _unblock_again(self, answer: asyncio.Future[list[Any]]) -> None:
        """The request to block may be on its way still."""
        if answer.cancelled() or answer.exception() is not None or answer.result()[0] != 0:
            return
        if self._blocking is not None:
            asyncio.get_running_loop().call_later(UNBLOCK_AGAIN, self._unblock)

    # --- one read ----------------------------------------------------------------------------------------

    async def _read(self, wanted: Wanted) -> list[Claim]:
        try:
            claims = await self._take_up(wanted) or await self._look(wanted)
        except BackendUnavailable:
            self._doubtful = True
            self._idle = False
            raise
        await self._release_started(claims)
        return claims

    async def _look(self, wanted: Wanted) -> list[Claim]:
        loop = asyncio.get_running_loop()
        until = loop.time() + wanted.wait
        while True:
            self._stirred.clear()
            claims = await self._poll_if_needed(wanted)
            if self._was_woken() or claims or loop.time() >= until:
                return claims
            if self._stirred.is_set():
                continue
            claims = await self._block(wanted, min(until - loop.time(), BLOCK))
            self._idle = not claims and not self._stirred.is_set()
            if self._was_woken() or claims or loop.time() >= until:
                return claims

    def _may_skip(self, wanted: Wanted) -> bool:
        """After a vain wait the blocking read alone will do: it takes at once what has come since."""
        return self._idle and wanted.wait > 0 and not self._wake_asked and not self._paused

    def _was_woken(self) -> bool:
        woken, self._wake_asked = self._wake_asked, False
        return woken or self._leaving

    async def _poll_if_needed(self, wanted: Wanted) -> list[Claim]:
        if self._may_skip(wanted) and not await self._drawer.draw_again(wanted.queues, wanted.limit):
            return []
        drawn = True
        claims: list[Claim] = []
        while drawn and not claims and not (self._wake_asked or self._leaving):
            # All that was drawn may have been parked, or taken by others: then there may be more.
            claims, drawn = await self._poll(wanted)
        return claims

    async def _poll(self, wanted: Wanted) -> tuple[list[Claim], bool]:
        """What is there, and whether events were drawn for it."""
        calls = (*self._drawer.calls(wanted.queues, wanted.limit, waits=wanted.wait > 0), self._call(wanted))
        *draws, reply = await self._store.run_all(calls, self._link, tolerates=is_out_of_memory)
        self._store.check([reply], self._link)
        drawn = await self._drawer.note(wanted.queues, draws)
        seconds, microseconds, paused, reads, further, lane = reply
        self._store.learn_time(seconds, microseconds)
        self._paused.difference_update(queue.stream for queue in wanted.queues)
        self._paused.update(wanted.queues[source - 1].stream for source in paused)
        claims: list[Claim] = []
        for source, read_lane, entries in reads:
            claims += self._claims(wanted.queues[source - 1], read_lane, entries)
        if lane:
            shares = [(wanted.queues[source - 1], count) for source, count in further if count > 0]
            claims += await self._poll_further(lane, shares)
        return claims, drawn

    def _call(self, wanted: Wanted) -> Call:
        keys = [key for queue in wanted.queues for key in (*queue.keys.lanes, queue.keys.meta)]
        limit = wanted.limit
        if self._body_size * limit > BYTES:
            limit = max(1, int(BYTES / self._body_size))
        lanes = (RETURNED, *(BOTTOM_UP if wanted.from_bottom else TOP_DOWN))
        kinds = "".join(queue.stream.kind[0] for queue in wanted.queues)
        args = (GROUP, self._consumer, limit, wanted.suspects, PORTION, kinds, *lanes)
        return Call(CLAIM, pack((b"EVALSHA", CLAIM.digest, len(keys), *keys, *args)))

    async def _poll_further(self, lane: int, shares: Sequence[tuple[Queue, int]]) -> list[Claim]:
        head = ("XREADGROUP", "GROUP", GROUP, self._consumer, "COUNT")
        commands = [
            pack((*head, count, "STREAMS", queue.keys.lanes[lane - 1], ">")) for queue, count in shares
        ]
        claims: list[Claim] = []
        try:
            replies = await self._link.ask(b"".join(commands), len(commands))
        except BackendUnavailable:
            self._doubtful = True  # what the script brought is not lost by that
            return claims
        for (queue, _), reply in zip(shares, replies, strict=True):
            if isinstance(reply, list):
                claims += self._claims(queue, lane, reply[0][1])
        return claims

    async def _block(self, wanted: Wanted, seconds: float) -> list[Claim]:
        lanes = self._lanes_to_block_on(wanted)
        if not lanes:
            try:
                async with asyncio.timeout(seconds):
                    await self._stirred.wait()
            except TimeoutError:
                pass
            return []
        head = ("XREADGROUP", "GROUP", GROUP, self._consumer, "COUNT", 1)
        block = ("BLOCK", max(1, round(seconds * 1000)), "STREAMS")
        latest = asyncio.get_running_loop().time() + seconds + LATE
        [reply] = await self._ask_blocking(pack((*head, *block, *lanes, *[">"] * len(lanes))), seconds)
        if isinstance(reply, ReplyError):
            await self._heal(reply, wanted)
        elif reply and asyncio.get_running_loop().time() > latest:
            self._doubtful = True
            return await self._take_up(wanted)
        elif reply:
            claims = [claim for key, entries in reply for claim in self._claims(*lanes[key], entries)]
            return await self.trim(claims, wanted)
        return []

    def _lanes_to_block_on(self, wanted: Wanted) -> dict[bytes, tuple[Queue, int]]:
        closed = self._drawer.gone
        open_queues = [
            queue for queue in wanted.queues if queue.stream not in self._paused and queue not in closed
        ]
        first = SUSPECT if wanted.suspects > 0 else RETURNED
        return {
            queue.keys.lanes[lane - 1]: (queue, lane)
            for lane in range(first, len(LANES) + 1)
            for queue in open_queues
        }

    async def _ask_blocking(self, data: bytes, seconds: float) -> list[Any]:
        wire = await self._link.connected()
        if self._stirred.is_set() or self._wake_asked:
            return [None]
        self._blocking = wire
        try:
            return await wire.send(data, 1, patience=seconds)
        finally:
            self._blocking = None

    async def _heal(self, error: ReplyError, wanted: Wanted) -> None:
        """Make groups anew that somebody destroyed, from the beginning: what is done is deleted."""
        if not can_heal(error):
            self._store.check([error], self._link)
        self._notices.warn(
            f"a queue's group is gone from {self._store.server_name} and is made again: {error}"
        )
        await self._drawer.draw(wanted.queues, wanted.limit)
        queues = [queue for queue in wanted.queues if queue not in self._drawer.gone]
        if queues:
            await self._store.run_all([queue.call(ENSURE, "") for queue in queues], self._link)
        self._seen.clear()
        self._stirred.set()

    # --- what was read -----------------------------------------------------------------------------------

    def _claims(self, queue: Queue, lane: int, entries: list[Any]) -> list[Claim]:
        if not entries:
            return []
        self._seen.setdefault(queue, [b""] * len(LANES))[lane - 1] = entries[-1][0]
        claims = claims_of(queue, lane, entries, self._consumer, self._store.now_us())
        self._body_size = (self._body_size + len(claims[-1].body)) / 2
        return claims

    async def _take_up(self, wanted: Wanted) -> list[Claim]:
        """What was read for a caller who had gone, or by a read whose answer was lost."""
        claims, self._kept = self._kept, []
        if not claims and self._doubtful:
            claims = await self._unseen(wanted)
            self._doubtful = len(claims) >= wanted.limit
        return await self.trim(claims, wanted) if claims else claims

    async def _unseen(self, wanted: Wanted) -> list[Claim]:
        queues = list(dict.fromkeys((*wanted.queues, *self._seen)))
        seen = [self._seen.get(queue, [b""] * len(LANES)) for queue in queues]
        calls = [
            queue.call(UNSEEN, self._consumer, wanted.limit, *entries)
            for queue, entries in zip(queues, seen, strict=True)
        ]
        claims: list[Claim] = []
        for queue, found in zip(queues, await self._store.run_all(calls, self._link), strict=True):
            for lane, entries in found:
                claims += self._claims(queue, lane, entries)
        return claims

    async def trim(self, claims: list[Claim], wanted: Wanted) -> list[Claim]:
        """Hand back what goes beyond what was wanted: a blocking read takes one from each lane."""
        taken: list[Claim] = []
        surplus: list[Claim] = []
        suspects = wanted.suspects
        for claim in claims:
            suspect = claim.token.lane == SUSPECT
            fits = len(taken) < wanted.limit and (not suspect or suspects > 0)
            if fits and claim.source.stream not in self._paused:
                taken.append(claim)
                suspects -= suspect
            else:
                surplus.append(claim)
        await self.hand_back(surplus)
        return taken

    async def hand_back(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            token, queue = claim.token, self._store.queue(claim.source.stream)
            place = (claim.id, token.lane, token.entry, token.consumer)
            try:
                await self._store.run(queue.call(AGAIN, *place, "L", 0, 1, ""))
            except BackendUnavailable:
                self._kept.append(claim)

    async def _release_started(self, claims: list[Claim]) -> None:
        for claim in claims:
            if claim.token.unique.startswith(b"s"):
                queue = self._store.queue(claim.source.stream)
                try:
                    await self._store.run(queue.call(STARTED, claim.id, claim.token.unique))
                except BackendUnavailable:
                    pass  # It is released when the message ends.
