"""The verbs of the contract that move a store, on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import Final

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Stream
from headrace.core.moving.moving import Imported, Moving, SetAside, StoredPage
from headrace.core.moving.seal import Seal
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.steps import PostgresSteps

from .export import PostgresAsideStream
from .importing import import_page, imported
from .sealing import delete_some, list_aside, open_transactions, read_seal, set_aside, write_seal

#: Seconds between two looks for transactions that were open when the store was sealed.
LOOK_EVERY: Final = 0.1

#: Seconds after which such transactions are an error.
OUTLAST: Final = 60.0


class PostgresMoving(PostgresSteps, Moving):
    async def seal(self) -> Seal | None:
        return await self._read(lambda connection: read_seal(connection, self._namespace))

    async def set_seal(self, seal: Seal | None) -> None:
        if seal is not None and seal.stage == "moved":
            while await self._write(delete_some):
                pass
        await self._write(lambda transaction: write_seal(transaction, seal))
        if seal is not None and seal.stage != "moved":
            await self._outlast_transactions()
        if seal is not None and seal.stage == "moving":
            await self._write(set_aside)

    async def _outlast_transactions(self) -> None:
        """Wait until no transaction is left that began before the seal was committed: of a user, with an old
        snapshot, or of a relay."""
        left = await self._read(open_transactions)
        until = monotonic() + OUTLAST
        while left and monotonic() < until:
            await asyncio.sleep(LOOK_EVERY)
            left &= await self._read(open_transactions)
        if left:
            raise BackendUnavailable(
                f"{len(left)} transactions are open in {self.description} since before it was sealed, and may"
                " still add jobs: end them (see pg_stat_activity), then run the move again"
            )

    async def set_aside(self) -> list[SetAside]:
        return await self._read(lambda connection: list_aside(connection, self._namespace))

    async def export(self, stream: Stream, place: str) -> StoredPage:
        async def page(connection: PostgresConnection, now_us: int) -> StoredPage:
            found = await PostgresAsideStream.find(connection, self._namespace, stream, now_us)
            return await found.page(place)

        return await self._read_at(page)

    async def import_page(self, stream: Stream, page: StoredPage, *, move: str, origin: Stream) -> None:
        await self._write(partial(import_page, stream=stream, page=page, move=move, origin=origin))

    async def imported(self, origins: Sequence[Stream], *, move: str) -> list[Imported]:
        async def read(connection: PostgresConnection) -> list[Imported]:
            return [await imported(connection, self._namespace, origin, move) for origin in origins]

        return await self._read(read)
