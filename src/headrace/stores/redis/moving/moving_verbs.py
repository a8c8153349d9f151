"""The verbs of the contract that move a store, on Redis."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.messages.message import Stream
from headrace.core.moving.moving import Imported, Moving, SetAside, StoredPage
from headrace.core.moving.seal import Seal
from headrace.stores.redis.server.server import RedisServer

from .aside_keys import MessageKeys
from .export import RedisAsideStream
from .importing import import_page, imported
from .sealing import delete, list_aside, read_seal, remove_seal, set_aside, write_seal


class RedisMoving(Moving):
    _store: RedisServer
    _message_keys: MessageKeys | None = None

    async def seal(self) -> Seal | None:
        return await read_seal(self._store)

    async def set_seal(self, seal: Seal | None) -> None:
        self._message_keys = None
        if seal is None:
            await remove_seal(self._store)
            return
        if seal.stage == "moved":
            await delete(self._store)
        await write_seal(self._store, seal)
        if seal.stage == "moving":
            await set_aside(self._store)

    async def set_aside(self) -> list[SetAside]:
        return await list_aside(self._store)

    async def export(self, stream: Stream, place: str) -> StoredPage:
        if self._message_keys is None:
            self._message_keys = MessageKeys(self._store)
        return await RedisAsideStream(self._store, stream, self._message_keys).page(place)

    async def import_page(self, stream: Stream, page: StoredPage, *, move: str, origin: Stream) -> None:
        await import_page(self._store, stream, page, move=move)

    async def imported(self, origins: Sequence[Stream], *, move: str) -> list[Imported]:
        return [await imported(self._store, origin, move) for origin in origins]
