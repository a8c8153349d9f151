"""A read that waits at the server until something comes, and how it is ended before its time."""

from __future__ import annotations

import asyncio
from typing import Any

from headrace.stores.redis.client.connection import Wire, pack
from headrace.stores.redis.server import RedisServer

#: Seconds after which a read is unblocked again that was not yet blocked.
UNBLOCK_AGAIN = 0.005


class BlockingRead:
    """At most one at a time. It is awaited in the task of its caller, so that no turn of the event loop lies
    between the answer and what follows. When the caller is cancelled, the answer is still to come: `left`."""

    def __init__(self, store: RedisServer) -> None:
        self._store = store
        self.wire: Wire | None = None  # where it waits
        self._late: asyncio.Future[list[Any] | None] | None = None  # the answer of one whose caller has gone

    async def ask(self, wire: Wire, data: bytes, seconds: float) -> Any:
        late = self._late = asyncio.get_running_loop().create_future()
        late.add_done_callback(self._ended)
        self.wire = wire
        answer = wire.send(data, 1, patience=seconds, late=late.set_result)
        try:
            [reply] = await answer
        except asyncio.CancelledError:
            if not (answer.cancelled() or late.done()):  # it came in the same moment
                late.set_result(None if answer.exception() else answer.result())
            raise
        except BaseException:
            self.wire = self._late = None
            raise
        self.wire = self._late = None
        return reply

    async def left(self) -> list[Any] | None:
        """What a read has brought whose caller has gone; None: its answer was lost."""
        if self._late is None:
            return []
        await asyncio.wait([self._late])
        late, self._late = self._late, None
        return late.result()

    def unblock(self) -> None:
        """End it, if there is one."""
        if self.wire is None or not self.wire.client_id:
            return
        beside = self._store.beside(self.wire)
        if beside is not None:
            answer = beside.send(pack(("CLIENT", "UNBLOCK", self.wire.client_id)))
            answer.add_done_callback(self._unblock_again)

    def _unblock_again(self, answer: asyncio.Future[list[Any]]) -> None:
        """The request to block may be on its way still."""
        if answer.cancelled() or answer.exception() is not None or answer.result()[0] != 0:
            return
        if self.wire is not None:
            asyncio.get_running_loop().call_later(UNBLOCK_AGAIN, self.unblock)

    def _ended(self, late: asyncio.Future[list[Any] | None]) -> None:
        if self._late is late:
            self.wire = None
