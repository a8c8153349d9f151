"""Claims for one consumer on a cluster: a reader for each slot, since no command may read from two."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from headrace.core.claim import Claim, size_of
from headrace.core.errors import BackendUnavailable
from headrace.core.message import Stream

from .faults import lost
from .notices import Notices
from .queue import Queue
from .reader import Reader, Wanted
from .store import Store

#: How many are asked at once: each may bring one message more than it has room for.
AT_ONCE = 4

#: Seconds after the first answer for which the others are waited for.
GRACE = 1.0

#: Seconds after which a reader that is not asked any more is closed: a queue may be gone, or split anew.
UNUSED = 60.0

Reading: TypeAlias = "asyncio.Task[list[Claim]]"


class Readers:
    """Those who have something are asked for equal shares first, beginning with the queue whose turn it is;
    when nobody has, all wait at once, and the first to bring something ends the wait of the others.

    A node that is away keeps nobody from the rest: its error is told only when all fail.
    """

    def __init__(self, store: Store, consumer: str, paused: set[Stream]) -> None:
        self._store = store
        self._consumer = consumer
        self._paused = paused
        self._readers: dict[int, Reader] = {}
        self._used_at: dict[int, float] = {}
        self._turns = asyncio.Lock()
        self._woken = asyncio.Event()
        self._kept: list[Claim] = []  # read for a caller who had gone
        self._notices = Notices()

    async def claim(self, wanted: Wanted) -> list[Claim]:
        async with self._turns:
            parts = self._parts(wanted)
            self._close_unused(parts)
            kept, self._kept = self._kept, []
            claims = await self._trim(kept, wanted, parts) or await self._look(parts, wanted)
            self._woken.clear()  # one wake serves one claim
            return claims

    def wake(self) -> None:
        self._woken.set()

    def stir(self) -> None:
        for reader in self._readers.values():
            reader.stir()

    async def stop(self) -> None:
        self.wake()
        async with self._turns:
            readers = list(self._readers.values())
            if self._kept:
                await readers[0].hand_back(self._kept)
            await asyncio.gather(*[reader.stop() for reader in readers])

    async def _look(self, parts: dict[Reader, Wanted], wanted: Wanted) -> list[Claim]:
        if not parts:
            return []
        if not self._may_wait_at_once(parts, wanted):
            claims = await self._poll(parts, wanted)
            if claims or wanted.wait <= 0 or self._woken.is_set():
                return claims
        return await self._trim(await self._wait(parts), wanted, parts)

    def _parts(self, wanted: Wanted) -> dict[Reader, Wanted]:
        """What each reader is asked, in the order of turns. Those that still wait for a node which does not
        answer are left out, as long as there are others."""
        queues: dict[int, list[Queue]] = {}
        for queue in wanted.queues:
            queues.setdefault(self._store.share(queue), []).append(queue)
        parts = {
            self._reader(share, several[0]): msgspec.structs.replace(wanted, queues=several)
            for share, several in queues.items()
        }
        return {reader: part for reader, part in parts.items() if not reader.is_busy} or parts

    def _reader(self, share: int, queue: Queue) -> Reader:
        self._used_at[share] = asyncio.get_running_loop().time()
        if share not in self._readers:
            self._readers[share] = Reader(self._store, self._consumer, self._paused, queue)
        return self._readers[share]

    def _close_unused(self, parts: Collection[Reader]) -> None:
        until = asyncio.get_running_loop().time() - UNUSED
        for share, reader in list(self._readers.items()):
            if self._used_at[share] < until and reader.is_free and reader not in parts:
                reader.close()
                del self._readers[share], self._used_at[share]

    def _may_wait_at_once(self, parts: dict[Reader, Wanted], wanted: Wanted) -> bool:
        """After a vain wait nobody need be asked first: what has come since ends the next wait at once."""
        return wanted.wait > 0 and not self._woken.is_set() and all(reader.is_idle for reader in parts)

    # --- without waiting ---------------------------------------------------------------------------------

    async def _poll(self, parts: dict[Reader, Wanted], wanted: Wanted) -> list[Claim]:
        claims: list[Claim] = []
        suspects, children = wanted.suspects, wanted.children
        asking = list(parts)
        room = wanted.room
        while asking and len(claims) < wanted.limit and room > wanted.room / 2:
            shares = _shares(wanted.limit - len(claims), min(len(asking), AT_ONCE))
            asked = asking[: len(shares)]
            parts = {
                reader: msgspec.structs.replace(part, room=room // len(asked))
                for reader, part in parts.items()
            }
            # One may take suspects at a time, whose turn it is: all together would take too many.
            allowed = [suspects if place == 0 else 0 for place in range(len(asked))]
            for_children = _shares(children, len(asked)) + [0] * len(asked)
            answers = await self._ask(
                [
                    (
                        reader,
                        msgspec.structs.replace(
                            parts[reader], limit=share, suspects=most, children=free, wait=0.0
                        ),
                    )
                    for reader, share, most, free in zip(asked, shares, allowed, for_children, strict=False)
                ]
            )
            for found in answers:
                claims += found
            room = wanted.room - size_of(claims)
            suspects = max(0, wanted.suspects - sum(claim.suspect for claim in claims))
            children = wanted.children - sum(claim.child for claim in claims)
            full = [
                reader
                for reader, share, found in zip(asked, shares, answers, strict=True)
                if len(found) >= share
            ]
            asking = [*asking[len(shares) :], *full]
        return claims

    async def _ask(self, asked: Sequence[tuple[Reader, Wanted]]) -> list[list[Claim]]:
        tasks = [asyncio.create_task(reader.claim(part)) for reader, part in asked]
        await self._until_all(tasks)
        return self._brought(tasks)

    # --- waiting -----------------------------------------------------------------------------------------

    async def _wait(self, parts: dict[Reader, Wanted]) -> list[Claim]:
        """Each waits for one message: whoever gets it asks for more."""
        reading = [
            asyncio.create_task(reader.claim(msgspec.structs.replace(part, limit=1)))
            for reader, part in parts.items()
        ]
        woken = asyncio.create_task(self._woken.wait())
        try:
            await self._until_any(reading, woken)
            for reader, task in zip(parts, reading, strict=True):
                if not task.done():
                    reader.end_wait()
            await self._until_all(reading)
        finally:
            woken.cancel()
            for reader in parts:
                reader.begin_anew()
        return [claim for found in self._brought(reading) for claim in found]

    async def _until_any(self, reading: list[Reading], woken: asyncio.Task[bool]) -> None:
        """Until one has brought something, or all are done, or somebody wakes us."""
        waiting: set[asyncio.Task[Any]] = {*reading, woken}
        while not woken.done() and not any(task.done() and _has_brought(task) for task in reading):
            waiting = {task for task in waiting if not task.done()}
            if waiting == {woken}:
                return
            await self._until(waiting, asyncio.FIRST_COMPLETED, reading)

    async def _until_all(self, reading: list[Reading]) -> None:
        """All but those that take too long: they go on by themselves, and what they bring comes later."""
        await self._until(reading, asyncio.FIRST_COMPLETED, reading)
        await self._until(reading, asyncio.ALL_COMPLETED, reading, GRACE)
        late = [task for task in reading if not task.done()]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _until(
        self,
        tasks: Iterable[asyncio.Task[Any]],
        when: str,
        reading: list[Reading],
        timeout: float | None = None,
    ) -> None:
        """Readers are never left in the middle of a read: when the caller goes they end, and what they
        brought is kept for the next."""
        try:
            await asyncio.wait(tasks, return_when=when, timeout=timeout)
        except asyncio.CancelledError:
            for task in reading:
                task.cancel()
            for found in await asyncio.gather(*reading, return_exceptions=True):
                if not isinstance(found, BaseException):
                    self._kept += found
            raise

    async def _trim(self, claims: list[Claim], wanted: Wanted, parts: dict[Reader, Wanted]) -> list[Claim]:
        """Several may have brought something at once: hand back what goes beyond what was wanted."""
        return await next(iter(parts)).trim(claims, wanted) if claims and parts else claims

    def _brought(self, reading: Sequence[Reading]) -> list[list[Claim]]:
        """What each has brought; nothing of those that failed, unless all did."""
        errors = [error for task in reading if (error := _error_of(task)) is not None]
        unexpected = [error for error in errors if not isinstance(error, BackendUnavailable)]
        found = [[] if _error_of(task) else task.result() for task in reading]
        if unexpected or len(errors) == len(reading):
            self._kept += [claim for claims in found for claim in claims]
            raise (unexpected or errors)[0]
        if errors:
            self._notices.warn(f"some queues cannot be claimed from: {errors[0]}")
        return found


def _has_brought(task: Reading) -> bool:
    return _error_of(task) is None and bool(task.result())


def _error_of(task: Reading) -> BaseException | None:
    return lost("a node does not answer") if task.cancelled() else task.exception()


def _shares(limit: int, number: int) -> list[int]:
    """As equal as can be, the first the larger ones; those for whom nothing is left are not named."""
    each, more = divmod(limit, number)
    return [each + (place < more) for place in range(min(number, limit))]
