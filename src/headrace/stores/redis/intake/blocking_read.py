"""Makes a read that blocks at the server until a message comes, and can end that read early."""

from __future__ import annotations

import asyncio
from typing import Any

from headrace.stores.redis.client.connection import Wire, pack
from headrace.stores.redis.server.server import RedisServer

#: Seconds until the next UNBLOCK, when the read was not blocked yet.
UNBLOCK_AGAIN = 0.005


class BlockingRead:
    """Waits at the server with a plain read, at most one at a time. The task of the caller awaits it, which
    saves one turn of the event loop after the answer. When the caller is cancelled, the answer still comes:
    `left` returns it."""

    def __init__(self, store: RedisServer) -> None:
        self._store = store
        self.wire: Wire | None = None  # the connection on which the read waits
        self._late: asyncio.Future[list[Any] | None] | None = None  # the answer to a cancelled caller

    async def ask(self, wire: Wire, data: bytes, seconds: float) -> Any:
        late = self._late = asyncio.get_running_loop().create_future()
        late.add_done_callback(self._ended)
        self.wire = wire
        answer = wire.send(data, 1, patience=seconds, late=late.set_result)
        try:
            [reply] = await answer
        except asyncio.CancelledError:
            if not (answer.cancelled() or late.done()):  # the answer came in the same moment
                late.set_result(None if answer.exception() else answer.result())
            raise
        except BaseException:
            self.wire = self._late = None
            raise
        self.wire = self._late = None
        return reply

    async def left(self) -> list[Any] | None:
        """The answer of a read whose caller was cancelled; None: the answer was lost."""
        if self._late is None:
            return []
        await asyncio.wait([self._late])
        late, self._late = self._late, None
        return late.result()

    def unblock(self) -> None:
        """End the read, if one is under way."""
        if self.wire is None or not self.wire.client_id:
            return
        beside = self._store.beside(self.wire)
        if beside is not None:
            answer = beside.send(pack(("CLIENT", "UNBLOCK", self.wire.client_id)))
            answer.add_done_callback(self._unblock_again)

    def _unblock_again(self, answer: asyncio.Future[list[Any]]) -> None:
        """Try again: the request to block may still be on its way to the server."""
        if answer.cancelled() or answer.exception() is not None or answer.result()[0] != 0:
            return
        if self.wire is not None:
            asyncio.get_running_loop().call_later(UNBLOCK_AGAIN, self.unblock)

    def _ended(self, late: asyncio.Future[list[Any] | None]) -> None:
        if self._late is late:
            self.wire = None
