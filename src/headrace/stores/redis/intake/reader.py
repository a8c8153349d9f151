"""Claims messages for one consumer, on its own connection: with a script under load, with a blocking read
when idle.

A read is never cut short. It looks in a task of the reader, and waits in the task of its caller
(`BlockingRead`). When the caller is cancelled, the next caller gets what the read brings. After any error the
reader also finds the messages of a lost answer (`HandOuts`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Set
from typing import Any, TypeAlias, cast

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.stores.redis.client import ReplyError
from headrace.stores.redis.client.connection import pack
from headrace.stores.redis.entries import EntryToken
from headrace.stores.redis.keys import (
    CHILD_LANES,
    GROUP,
    IN_ORDER,
    LINE_LETTERS,
    NORMAL_LANE,
    SUSPECTS,
    has_lines,
)
from headrace.stores.redis.scripts import DECLARE_STREAM
from headrace.stores.redis.server.faults import can_heal
from headrace.stores.redis.server.notices import Notices
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import StreamScripts

from .blocking_read import BlockingRead
from .claim_request import ClaimRequest
from .hand_outs import HandOuts
from .poll import QueuePoll

#: Seconds that a read blocks at most.
BLOCK = 2.0

#: Seconds. An answer that is this much too late waited here while this process stood still. Its messages may
#: belong to other workers by now.
LATE = 0.25

#: After a wait of LULL seconds the lanes held nothing else, so the next read may block without a look. It may
#: do so on LULL_LANES lanes at most: it takes one message from each, however large.
LULL, LULL_LANES = 0.001, 4

#: Seconds for which lanes that held nothing else count as empty.
IDLE_FOR = 0.05

#: Stands for a lane where a read blocks on the tickets of lines.
TICKET = -1

#: The queue and the lane that a key belongs to.
BlockedOn: TypeAlias = tuple[StreamScripts, int]

#: The lanes on which a read blocks, by their keys.
BlockedLanes: TypeAlias = Mapping[bytes, BlockedOn]

#: What a look found. With lanes: it found nothing, and there is time left to block on those lanes.
FoundClaims: TypeAlias = tuple[list[Claim], BlockedLanes | None]


class ClaimReader:
    """`paused` is shared with the store, which updates it. On a cluster all queues of a reader are on the
    same node, and `queue` is one of them."""

    def __init__(
        self, store: RedisServer, consumer: str, paused: set[Stream], queue: StreamScripts | None = None
    ) -> None:
        self._store = store
        self._consumer = consumer
        self._paused = paused
        self._link = store.new_link(queue=queue)
        self._turns = asyncio.Lock()
        self._task: asyncio.Task[FoundClaims] | None = None
        self._blocked = BlockingRead(store)
        self._lanes: BlockedLanes = {}  # on which it blocked last
        self._changed = asyncio.Event()  # what was known before may be out of date
        self._wake_asked = False
        self._leaving = False  # the caller of the read under way was cancelled
        self._kept: list[Claim] = []  # read, and not handed out
        self._handouts = HandOuts(store, self._link, consumer)
        self._idle: tuple[Set[bytes], float] | None = None  # lanes that held nothing else, and when
        self._hit: StreamScripts | None = None  # the queue in which the last wait found a message
        self._notices = Notices()
        self._poll = QueuePoll(store, self._link, consumer, paused, self._handouts)
        self._drawer = self._poll.drawer

    # --- for the backend ---------------------------------------------------------------------------------

    async def claim(self, wanted: ClaimRequest) -> list[Claim]:
        await self._turns.acquire()
        try:  # not `async with`: its exit is one more coroutine between an answer and its claim
            await self._abandoned()
            loop = asyncio.get_running_loop()
            until = loop.time() + wanted.wait
            while True:
                lanes = self._lull(wanted)
                if lanes is None or self._drawer.is_due:
                    claims, lanes = await self._carried(self._look(wanted, until))
                    if lanes is None:
                        return claims
                claims = await self._wait(wanted, lanes, min(until - loop.time(), BLOCK))
                if claims or self._was_woken() or loop.time() >= until:
                    self._wake_asked = False
                    return claims
        finally:
            self._turns.release()

    async def _carried(self, work: Coroutine[Any, Any, FoundClaims]) -> FoundClaims:
        """Run work in a task, so that it goes on when the caller is cancelled."""
        # Not `shield`, which would take one more turn of the event loop.
        ended = asyncio.get_running_loop().create_future()
        task = self._task = asyncio.create_task(_through(work, ended))
        try:
            await ended
        except asyncio.CancelledError:
            self._leave()
            raise
        self._task = None
        return task.result()

    def wake(self) -> None:
        self._wake_asked = True
        self.look_again()

    @property
    def is_busy(self) -> bool:
        """Whether a read is under way whose caller was cancelled."""
        return self._task is not None and not self._task.done()

    @property
    def is_free(self) -> bool:
        """Whether no read is under way, and everything that was read was handed to a caller."""
        return self._task is None and not self._kept and not self._handouts.doubtful

    def close(self) -> None:
        self._link.drop()

    def ready(self, queue: StreamScripts, named: str) -> None:
        """Do nothing: the announcement is for readers that do not block, and this one does."""

    def look_again(self) -> None:
        """Make the read under way look again."""
        self._idle = None
        self._changed.set()
        self._blocked.unblock()

    async def stop(self) -> None:
        """End the read under way, hand back the claims that no caller took, and close the connection."""
        self.wake()
        async with self._turns:
            await self._abandoned()
            kept, self._kept = self._kept, []
            await self.hand_back(kept)
            self.close()

    async def _abandoned(self) -> None:
        """Wait for a read whose caller was cancelled, and keep its claims. Its error concerns only that
        caller."""
        if self._task is not None:
            self._leave()
            await asyncio.wait([self._task])
            task, self._task = self._task, None
            if not task.cancelled() and task.exception() is None:
                self._kept += task.result()[0]
        self._blocked.unblock()
        replies = await self._blocked.left()
        if replies is None:
            self._handouts.doubtful = True
        elif replies and isinstance(replies[0], list):
            self._kept += self._claims_at(self._lanes, replies[0])
        self._leaving = False

    def _leave(self) -> None:
        """End the read under way: its caller was cancelled."""
        self._leaving = True
        self._idle = None
        self._changed.set()
        self._blocked.unblock()

    # --- one read ----------------------------------------------------------------------------------------

    async def _look(self, wanted: ClaimRequest, until: float) -> FoundClaims:
        lanes: BlockedLanes | None = None
        try:
            claims = await self._take_up(wanted)
            if not claims:
                claims, lanes = await self._poll_until(wanted, until)
        except BackendUnavailable:
            self._doubt()
            raise
        await self._handouts.release_started(claims)
        return claims, lanes

    async def _poll_until(self, wanted: ClaimRequest, until: float) -> FoundClaims:
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            claims = await self._poll_if_needed(wanted)
            if self._was_woken() or claims or loop.time() >= until:
                return claims, None
            if self._changed.is_set():
                continue
            lanes = self._lanes_to_block_on(wanted)
            if lanes:
                return [], lanes
            await self._until_changed(min(until - loop.time(), BLOCK))
            if self._was_woken() or loop.time() >= until:
                return [], None

    async def _until_changed(self, seconds: float) -> None:
        """Wait without the server: there is no lane to block on."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _doubt(self) -> None:
        self._handouts.doubtful = True
        self._idle = None

    def _lull(self, wanted: ClaimRequest) -> BlockedLanes | None:
        """The lanes to block on without a look, because they held nothing else just now. The blocking read
        takes what came since at once: one message from each lane, however large. None: look first."""
        if self._idle is None or wanted.wait <= 0 or self._wake_asked or self._paused:
            return None
        lanes, when = self._idle
        if self._kept or self._handouts.doubtful or asyncio.get_running_loop().time() >= when + IDLE_FOR:
            return None
        found = self._lanes_to_block_on(wanted)
        return found if found.keys() == lanes else None

    def _was_woken(self) -> bool:
        woken, self._wake_asked = self._wake_asked, False
        return woken or self._leaving

    async def _poll_if_needed(self, wanted: ClaimRequest) -> list[Claim]:
        if self._lull(wanted) and not await self._drawer.draw_again(wanted.queues, wanted.limit):
            return []
        if wanted.glances and await self._poll.tokens.are_unchanged(wanted.queues):
            return []
        claims: list[Claim] = []
        hit, self._hit = self._hit, None
        for window in wanted.windows(hit):
            claims, drawn = await self._poll.poll(window)
            while drawn and not claims and not (self._wake_asked or self._leaving):
                # All drawn events may be parked, or taken by other workers. Then there may be more to draw.
                claims, drawn = await self._poll.poll(window)
            if claims or self._wake_asked or self._leaving:
                break
        return claims

    async def _wait(self, wanted: ClaimRequest, lanes: BlockedLanes, seconds: float) -> list[Claim]:
        """Block until the first message comes. A plain message goes straight to the caller."""
        loop = asyncio.get_running_loop()
        head = ("XREADGROUP", "GROUP", GROUP, self._consumer, "COUNT", 1)
        block = ("BLOCK", max(1, round(seconds * 1000)), "STREAMS")
        command = pack((*head, *block, *lanes, *[">"] * len(lanes)))
        try:
            wire = self._link.wire or await self._link.connected()
            if self._changed.is_set() or self._wake_asked:
                return []
            self._lanes, began = lanes, loop.time()
            reply = await self._blocked.ask(wire, command, seconds)
        except BackendUnavailable:
            self._doubt()
            raise
        except asyncio.CancelledError:
            self._leave()
            raise
        now, self._idle = loop.time(), None
        if not reply:
            self._idle = None if self._changed.is_set() else (lanes.keys(), now)
            return []
        if isinstance(reply, ReplyError):
            return (await self._carried(self._heal(reply, wanted)))[0]
        if now > began + seconds + LATE:
            self._handouts.doubtful = True
            return []
        if now > began + LULL and len(lanes) <= LULL_LANES:
            self._idle = lanes.keys(), now
        queue, lane = lanes[reply[0][0]]
        self._hit = queue
        if len(reply) == 1 and lane == NORMAL_LANE and not self._paused:
            claims = self._handouts.claims(queue, lane, reply[0][1])
            if not cast(EntryToken, claims[0].token).unique:
                return claims
        else:
            claims = self._claims_at(lanes, reply)
        return (await self._carried(self._sorted(claims, wanted)))[0]

    async def _sorted(self, claims: list[Claim], wanted: ClaimRequest) -> FoundClaims:
        if not claims:
            return await self._look(wanted, 0)  # it was a ticket: a line was opened
        claims = await self.trim(claims, wanted)
        await self._handouts.release_started(claims)
        return claims, None

    def _lanes_to_block_on(self, wanted: ClaimRequest) -> BlockedLanes:
        closed = self._drawer.gone
        open_queues = [
            queue for queue in wanted.queues if queue.stream not in self._paused and queue not in closed
        ]
        unwanted = {*([] if wanted.suspects > 0 else SUSPECTS), *([] if wanted.children > 0 else CHILD_LANES)}
        lanes = {
            queue.keys.by_lane[lane]: (queue, lane)
            for lane in IN_ORDER
            if lane not in unwanted
            for queue in open_queues
            if lane == NORMAL_LANE or str(lane) in self._store.lanes.get(queue, "")
        }
        if wanted.constrained > 0:
            lanes |= self._tickets(open_queues, unwanted)
        return lanes

    def _tickets(self, queues: list[StreamScripts], unwanted: Set[int]) -> dict[bytes, BlockedOn]:
        """The tickets of lines: one of them comes when a line is opened."""
        return {
            queue.keys.tickets[lane]: (queue, TICKET)
            for queue in queues
            if has_lines(used := self._store.lanes.get(queue, ""))
            for lane, letter in enumerate(LINE_LETTERS)
            if lane not in unwanted and letter in used
        }

    async def _heal(self, error: ReplyError, wanted: ClaimRequest) -> FoundClaims:
        """Make groups again that were destroyed by hand. They begin at the first entry: entries that are done
        are deleted."""
        if not can_heal(error):
            self._store.check([error], self._link)
        self._notices.warn(
            f"a queue's group is gone from {self._store.server_name} and is made again: {error}"
        )
        await self._drawer.draw(wanted.queues, wanted.limit)
        queues = [queue for queue in wanted.queues if queue not in self._drawer.gone]
        if queues:
            await self._store.run_all([queue.call(DECLARE_STREAM, "") for queue in queues], self._link)
        for queue in wanted.queues:
            self._store.lanes.pop(queue, None)  # the lanes may be gone too; the next look finds out
        self._handouts.forget()
        return [], None

    # --- what was read -----------------------------------------------------------------------------------

    def _claims_at(self, lanes: BlockedLanes, reply: list[Any]) -> list[Claim]:
        """The claims in the answer of a blocking read. After a ticket, the next read looks first."""
        claims: list[Claim] = []
        for key, entries in reply:
            queue, lane = lanes[key]
            if lane == TICKET:
                self._idle = None
            else:
                claims += self._handouts.claims(queue, lane, entries)
        return claims

    async def _take_up(self, wanted: ClaimRequest) -> list[Claim]:
        """The claims of a read whose caller was cancelled, or whose answer was lost."""
        claims, self._kept = self._kept, []
        if not claims and self._handouts.doubtful:
            claims = await self._handouts.unseen(wanted)
        return await self.trim(claims, wanted) if claims else claims

    async def trim(self, claims: list[Claim], wanted: ClaimRequest) -> list[Claim]:
        """Hand back the claims that exceed the request: a blocking read takes one from each lane."""
        taken, surplus = wanted.divide(claims, self._paused)
        await self.hand_back(surplus)
        return taken

    async def hand_back(self, claims: list[Claim]) -> None:
        self._kept += await self._handouts.hand_back(claims)


async def _through(work: Coroutine[Any, Any, FoundClaims], ended: asyncio.Future[None]) -> FoundClaims:
    try:
        return await work
    finally:
        if not ended.done():
            ended.set_result(None)
