"""What waits in outboxes, and which workers relay them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.outbox.database import OutboxDatabase
from headrace.core.outbox.outbox import OutboxRecord
from headrace.core.records.record import WorkerInfo
from headrace.core.runtime.clock import SECOND
from headrace.engine.app_loop.app_loop import AppLoop


class OutboxInfo(msgspec.Struct, frozen=True):
    """An outbox: of a group (`orders/feed:bill`), or of a database.

    `waiting` messages wait to be relayed, the first of them for `lag` seconds. `relays` workers relay it.
    `error`: why a database could not be asked.
    """

    name: str
    waiting: int = 0
    lag: float = 0.0
    relays: int = 0
    error: str = ""


class OutboxReader:
    """Reads the outboxes of the store, and that of the app's database, if it has one."""

    def __init__(self, app_loop: AppLoop, database: OutboxDatabase | None) -> None:
        self._app_loop = app_loop
        self._database = database

    async def outboxes(self) -> list[OutboxInfo]:
        """Every outbox of the store that is not empty, and the outbox of the database."""
        workers = await self._app_loop.ask(lambda store: store.workers())
        relays_of = _counted(workers)
        records = await self._app_loop.ask(lambda store: store.outboxes())
        named = [(record.origin.name, record) for record in records if record.origin is not None]
        found = [_info(name, record, relays_of(name)) for name, record in sorted(named)]
        if self._database is not None:
            found.append(await self._of_database(self._database, relays_of(self._database.name)))
        return found

    async def _of_database(self, database: OutboxDatabase, relays: int) -> OutboxInfo:
        reader = database.for_other_loop()
        try:
            return _info(database.name, await reader.record(), relays)
        except (BackendUnavailable, ConfigurationError) as error:
            return OutboxInfo(database.name, relays=relays, error=str(error))
        finally:
            await reader.close()


def _info(name: str, record: OutboxRecord, relays: int) -> OutboxInfo:
    return OutboxInfo(name, record.waiting, record.oldest_us / SECOND, relays)


def _counted(workers: Sequence[WorkerInfo]) -> Callable[[str], int]:
    relayed = [name for worker in workers for name in worker.relays]
    return relayed.count
