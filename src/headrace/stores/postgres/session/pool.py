"""The connections of one store. They are opened when they are needed, and used again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Final

from headrace.stores.postgres.address import PostgresAddress

from .connection import PostgresConnection
from .silence import SilenceWatch

#: The most connections for statements. Producers, claims, settlements and upkeep rarely need more at once.
MOST: Final = 4

#: The most of them for steps that may wait for a transaction of a user. So claims and settlements go on while
#: such steps wait.
MOST_WAITING: Final = MOST // 2


class Pool:
    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._free: list[PostgresConnection] = []
        self._lent: set[PostgresConnection] = set()
        self._room = asyncio.Semaphore(MOST)
        self._room_to_wait = asyncio.Semaphore(MOST_WAITING)
        self.pooled: bool | None = None  # a pooler gives each transaction another session; None: not known

    @asynccontextmanager
    async def connection(self, *, may_wait: bool = False) -> AsyncIterator[PostgresConnection]:
        """`may_wait`: for a step that may wait for a transaction of a user."""
        async with self._room_to_wait if may_wait else nullcontext(), self._room:
            connection = self._take() or await self.open_one()
            self._lent.add(connection)
            try:
                with self.watch(connection):
                    yield connection
            finally:
                self._lent.discard(connection)
                await self._give(connection)

    def watch(self, connection: PostgresConnection) -> SilenceWatch:
        return SilenceWatch(connection, self._address)

    async def open_one(self) -> PostgresConnection:
        return await PostgresConnection.open(self._address, pooled=self.pooled)

    def _take(self) -> PostgresConnection | None:
        while self._free:
            connection = self._free.pop()
            if connection.is_alive():
                return connection
            connection.drop()
        return None

    async def _give(self, connection: PostgresConnection) -> None:
        if connection.is_usable and connection.is_idle:
            self._free.append(connection)
            return
        if not connection.is_usable:
            await self.clear()  # after a restart of the server the others are broken too
        await connection.close()

    async def clear(self) -> None:
        """Close the connections that are not in use."""
        free, self._free = self._free, []
        for connection in free:
            await connection.close()

    def drop(self) -> None:
        """Close all connections without an event loop."""
        for connection in (*self._free, *self._lent):
            connection.drop()
        self._free.clear()
