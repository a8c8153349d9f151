"""Claims messages for one consumer on a cluster, with one reader for each slot: no command may read from two.

Readers do not block on a cluster: that would take a connection and a command for each slot. A reader that
finds a queue empty leaves its name there. The next step that queues a message publishes that it is ready.
Each reader also looks at its slot every few seconds, in case it missed an announcement. While its name is
still there, it missed nothing (`change_tokens.py`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterable, Sequence
from math import inf
from typing import TypeAlias

import msgspec

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim, size_of
from headrace.core.messages.message import Stream
from headrace.stores.redis.keys import CHILD_LANES, LINE_LETTERS, SUSPECTS
from headrace.stores.redis.server.faults import lost
from headrace.stores.redis.server.notices import Notices
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import StreamScripts

from .claim_request import ClaimRequest, is_limited
from .reader import ClaimReader


def _named(lanes: Iterable[int]) -> frozenset[str]:
    """Lanes and their lines, in the form in which a store names the lanes in use."""
    return frozenset(name for lane in lanes for name in (str(lane), LINE_LETTERS[lane]))


CHILDREN, SUSPECT_LANES = _named(CHILD_LANES), _named(SUSPECTS)

#: The lanes that have lines.
LINES = frozenset(LINE_LETTERS)

#: Readers asked at once. The number is small because each may bring one message more than there is room for.
AT_ONCE = 4

#: Seconds to wait for the answers of the readers that were asked together.
GRACE = 1.0

#: Seconds after which an unused reader is closed: its queue may be gone, or split again.
UNUSED = 60.0

#: Seconds between two looks at a slot, and milliseconds for which a name stays (longer than
#: `change_tokens.LOOK`).
LOOK, AWAITED = 5.0, 90_000

#: Seconds that a consumer waits before it looks when the announcement names another one, which may be busy.
NOT_NAMED = (0.005, 0.02)

#: Seconds until the next look at a slot that could not be reached.
RETRY = 0.5

NodeRead: TypeAlias = "asyncio.Task[list[Claim]]"


class ClusterReaders:
    """Asks the readers for equal shares, beginning with the queue whose turn it is.

    A node that cannot be reached does not stop claims from the others. Its error is raised when all fail.
    """

    def __init__(self, store: RedisServer, consumer: str, paused: set[Stream]) -> None:
        self._store = store
        self._consumer = consumer
        self._paused = paused
        self._readers: dict[int, ClaimReader] = {}
        self._used_at: dict[int, float] = {}
        self._due_at: dict[ClaimReader, float] = {}  # when to ask each again; a missing reader: at once
        self._quiet: set[ClaimReader] = set()  # found nothing, and no announcement came since
        self._asked: dict[ClaimReader, ClaimRequest] = {}
        self._failed: set[ClaimReader] = set()
        self._turns = asyncio.Lock()
        self._changed = asyncio.Event()
        self._was_woken = False
        self._kept: list[Claim] = []  # read for a caller that was cancelled
        self._notices = Notices()

    async def claim(self, wanted: ClaimRequest) -> list[Claim]:
        async with self._turns:
            parts = self._parts(wanted)
            self._note_changes(parts)
            self._close_unused(parts)
            kept, self._kept = self._kept, []
            claims = await self._trim(kept, wanted, parts) or await self._look(parts, wanted)
            self._was_woken = False  # one wake serves one claim
            return claims

    def wake(self) -> None:
        self._was_woken = True
        self._changed.set()

    def look_again(self) -> None:
        """Have all readers look again: what is known of the slots may be out of date."""
        self._due_at.clear()
        self._quiet.clear()
        self._changed.set()

    def ready(self, queue: StreamScripts, named: str) -> None:
        """A message was queued. The consumer that is named looks first."""
        reader = self._readers.get(self._store.share(queue))
        if reader is None:
            return
        now = asyncio.get_running_loop().time()
        later = 0.0 if named == self._consumer else random.uniform(*NOT_NAMED)  # nosec B311 # jitter
        self._due_at[reader] = min(now + later, self._due_at.get(reader, -inf))
        self._quiet.discard(reader)
        self._changed.set()

    async def stop(self) -> None:
        self.wake()
        async with self._turns:
            readers = list(self._readers.values())
            if self._kept:
                await readers[0].hand_back(self._kept)
            await asyncio.gather(*[reader.stop() for reader in readers])

    async def _look(self, parts: dict[ClaimReader, ClaimRequest], wanted: ClaimRequest) -> list[Claim]:
        loop = asyncio.get_running_loop()
        until = loop.time() + wanted.wait
        while True:
            self._changed.clear()
            due = {reader: part for reader, part in parts.items() if self._is_due(reader)}
            claims = await self._poll(due, wanted) if due else []
            if not claims and wanted.wait <= 0:
                others = {reader: part for reader, part in parts.items() if reader not in due}
                claims = await self._poll(others, wanted)
            if not parts or claims or self._was_woken or loop.time() >= until:
                return claims
            await self._until_changed(min(until, *[self._due_at.get(reader, -inf) for reader in parts]))

    def _is_due(self, reader: ClaimReader) -> bool:
        return not reader.is_free or self._due_at.get(reader, -inf) <= asyncio.get_running_loop().time()

    async def _until_changed(self, until: float) -> None:
        try:
            async with asyncio.timeout_at(until):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _parts(self, wanted: ClaimRequest) -> dict[ClaimReader, ClaimRequest]:
        """The request for each reader, in the order of turns. Readers that still wait for a node that does
        not answer are left out, if there are others."""
        queues: dict[int, list[StreamScripts]] = {}
        for queue in wanted.queues:
            queues.setdefault(self._store.share(queue), []).append(queue)
        parts = {
            self._reader(share, several[0]): msgspec.structs.replace(
                wanted, queues=several, wait=0.0, awaited=AWAITED
            )
            for share, several in queues.items()
        }
        return {reader: part for reader, part in parts.items() if not reader.is_busy} or parts

    def _note_changes(self, parts: dict[ClaimReader, ClaimRequest]) -> None:
        """Have a reader look again when this request wants more than the last: other queues or more lanes."""
        for reader, part in parts.items():
            before = self._asked.get(reader)
            lanes = "".join(self._store.lanes.get(queue, "") for queue in part.queues)
            if (
                before is None
                or set(before.queues) != set(part.queues)
                or not _offered(part, before).isdisjoint(lanes)
            ):
                self._forget(reader)
        self._asked = parts

    def _reader(self, share: int, queue: StreamScripts) -> ClaimReader:
        self._used_at[share] = asyncio.get_running_loop().time()
        if share not in self._readers:
            self._readers[share] = ClaimReader(self._store, self._consumer, self._paused, queue)
        return self._readers[share]

    def _close_unused(self, parts: Collection[ClaimReader]) -> None:
        until = asyncio.get_running_loop().time() - UNUSED
        for share, reader in list(self._readers.items()):
            if self._used_at[share] < until and reader.is_free and reader not in parts:
                reader.close()
                self._forget(reader)
                self._failed.discard(reader)
                del self._readers[share], self._used_at[share]

    def _forget(self, reader: ClaimReader) -> None:
        """Have the reader look again: what is known of its slot may be out of date."""
        self._due_at.pop(reader, None)
        self._quiet.discard(reader)

    # --- asking ------------------------------------------------------------------------------------------

    async def _poll(self, parts: dict[ClaimReader, ClaimRequest], wanted: ClaimRequest) -> list[Claim]:
        claims: list[Claim] = []
        children, constrained, room = wanted.children, wanted.constrained, wanted.room
        asking = list(parts)
        while asking and len(claims) < wanted.limit and room > wanted.room / 2:
            shares = _shares(wanted.limit - len(claims), min(len(asking), AT_ONCE))
            free = _shares(children, len(shares)) + [0] * len(shares)
            limited = _shares(constrained, len(shares)) + [0] * len(shares)
            asked = [
                msgspec.structs.replace(
                    parts[reader],
                    limit=share,
                    children=most,
                    constrained=some,
                    room=room // len(shares),
                    glances=reader in self._quiet,
                )
                for reader, share, most, some in zip(asking, shares, free, limited, strict=False)
            ]
            answers = await self._ask(dict(zip(asking, asked, strict=False)), wanted)
            for found in answers:
                claims += found
            room = wanted.room - size_of(claims)
            children = wanted.children - sum(claim.child for claim in claims)
            constrained = wanted.constrained - sum(is_limited(claim) for claim in claims)
            full = [
                reader
                for reader, share, found in zip(asking, shares, answers, strict=False)
                if len(found) >= share
            ]
            asking = [*asking[len(shares) :], *full]
        # Each reader may have taken a suspect, but the caller wants one at a time.
        return await self._trim(claims, wanted, parts)

    async def _ask(self, asked: dict[ClaimReader, ClaimRequest], wanted: ClaimRequest) -> list[list[Claim]]:
        now = asyncio.get_running_loop().time()
        self._due_at.update(dict.fromkeys(asked, now + LOOK))  # unless an announcement comes first
        self._quiet.update(asked)
        tasks = [asyncio.create_task(reader.claim(part)) for reader, part in asked.items()]
        await self._until_all(tasks)
        for (reader, part), task in zip(asked.items(), tasks, strict=True):
            if _error_of(task) is not None:
                self._failed.add(reader)
                self._quiet.discard(reader)
                self._due_at[reader] = asyncio.get_running_loop().time() + RETRY
                continue
            self._failed.discard(reader)
            if task.result() or self._left_out(part, wanted):
                self._forget(reader)  # there may be more, or work that this request left out
        return self._brought(tasks)

    def _left_out(self, part: ClaimRequest, wanted: ClaimRequest) -> bool:
        """Whether messages may wait in these queues that the request wants, and this share of it did not."""
        lanes = "".join(self._store.lanes.get(queue, "") for queue in part.queues)
        return not _offered(wanted, part).isdisjoint(lanes)

    async def _until_all(self, reading: list[NodeRead]) -> None:
        """Wait for all reads except those that take too long. Those go on; a later claim gets their result.

        A read is never cut short. When the caller is cancelled, the reads end, and what they brought is kept
        for the next claim.
        """
        try:
            await asyncio.wait(reading, timeout=GRACE)
        except asyncio.CancelledError:
            for task in reading:
                task.cancel()
            for found in await asyncio.gather(*reading, return_exceptions=True):
                if not isinstance(found, BaseException):
                    self._kept += found
            raise
        late = [task for task in reading if not task.done()]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _trim(
        self, claims: list[Claim], wanted: ClaimRequest, parts: dict[ClaimReader, ClaimRequest]
    ) -> list[Claim]:
        """Hand back the claims that exceed the request."""
        return await next(iter(parts)).trim(claims, wanted) if claims and parts else claims

    def _brought(self, reading: Sequence[NodeRead]) -> list[list[Claim]]:
        """The claims of each read; none for a read that failed. Raises the error when all slots failed."""
        errors = [error for task in reading if (error := _error_of(task)) is not None]
        unexpected = [error for error in errors if not isinstance(error, BackendUnavailable)]
        found = [[] if _error_of(task) else task.result() for task in reading]
        if unexpected or (errors and self._failed.issuperset(self._asked)):
            self._kept += [claim for claims in found for claim in claims]
            raise (unexpected or errors)[0]
        if errors:
            self._notices.warn(f"some queues cannot be claimed from: {errors[0]}")
        return found


def _offered(part: ClaimRequest, before: ClaimRequest) -> frozenset[str]:
    """The lanes that this request allows and the last one did not."""
    suspects = SUSPECT_LANES if part.suspects > 0 >= before.suspects else frozenset()
    lines = LINES if part.constrained > 0 >= before.constrained else frozenset()
    return suspects | lines | (CHILDREN if part.children > 0 >= before.children else frozenset())


def _error_of(task: NodeRead) -> BaseException | None:
    return lost("a node does not answer") if task.cancelled() else task.exception()


def _shares(limit: int, number: int) -> list[int]:
    """Split a limit as equally as possible, larger shares first. Shares of zero are left out."""
    each, more = divmod(limit, number)
    return [each + (place < more) for place in range(min(number, limit))]
