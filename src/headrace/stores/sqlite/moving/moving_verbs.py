"""The verbs of the contract that move a store, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headrace.core.messages.message import Stream
from headrace.core.moving.moving import Imported, Moving, SetAside, StoredPage
from headrace.core.moving.seal import Seal
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.threads.store_threads import StoreThreads

from .export import SqliteAsideStream
from .importing import import_page, imported
from .sealing import delete_some, list_aside, read_seal, write_seal


class SqliteMoving(StoreThreads, Moving):
    async def seal(self) -> Seal | None:
        return await self._read(read_seal)

    async def set_seal(self, seal: Seal | None) -> None:
        if seal is not None and seal.stage == "moved":
            while await self._write(delete_some):
                pass
        await self._write(partial(write_seal, seal=seal))

    async def set_aside(self) -> list[SetAside]:
        return await self._read(list_aside)

    async def export(self, stream: Stream, place: str) -> StoredPage:
        now_us = self._clock.now_us()

        def page(connection: Connection, namespace: str) -> StoredPage:
            with connection.snapshot():
                return SqliteAsideStream(connection, namespace, stream, now_us).page(place)

        return await self._read(page)

    async def import_page(self, stream: Stream, page: StoredPage, *, move: str, origin: Stream) -> None:
        take = partial(import_page, stream=stream, page=page, move=move, origin=origin)
        await self._write(take, weight=len(page.items))

    async def imported(self, origins: Sequence[Stream], *, move: str) -> list[Imported]:
        def read(connection: Connection, namespace: str) -> list[Imported]:
            return [imported(connection, namespace, origin, move) for origin in origins]

        return await self._read(read)
