"""Notices a half-open connection: the server has answered, or is gone, and nothing arrives.

A statement may take long, because it waits for a lock. So silence alone proves nothing: another connection
asks the server whether it is still at work for this one."""

from __future__ import annotations

import asyncio
from typing import Final

import psycopg

from headrace.stores.postgres.address import PostgresAddress
from headrace.stores.postgres.faults import FAULTS, fault_of

from .connection import PostgresConnection

#: Seconds without an end after which the server is asked, and for which its answer is awaited.
ASK_AFTER: Final = 5.0
ASKED: Final = 3.0

#: Whether a session works for its client, or has answered so recently that the answer may be under way.
IS_AT_WORK: Final = (
    "SELECT state = 'active' OR state_change > clock_timestamp() - interval '1 second'"
    " FROM pg_stat_activity WHERE pid = $1"
)


class SilenceWatch:
    """Watches a connection in a `with` block. When nothing can arrive any more, it cuts the connection off:
    what waits for an answer then fails, as when the server closes the connection.

    It does not watch behind a pooler, which does not say which session of the server works for a client."""

    def __init__(self, connection: PostgresConnection, address: PostgresAddress) -> None:
        self._connection = connection
        self._address = address
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        if not self._connection.pooled:
            self._begin_to_wait()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin_to_wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(ASK_AFTER, self._begin_to_ask)

    def _begin_to_ask(self) -> None:
        self._task = asyncio.create_task(self._ask(), name="headrace: silence")

    async def _ask(self) -> None:
        if await self._is_at_work():
            self._begin_to_wait()
        else:
            self._connection.cut_off()

    async def _is_at_work(self) -> bool:
        try:
            async with asyncio.timeout(ASKED):
                other = await PostgresConnection.open(self._address, pooled=True)
                try:
                    rows = await other.rows(IS_AT_WORK, (self._connection.raw.info.backend_pid,))
                finally:
                    other.drop()
        except psycopg.Error as error:
            return fault_of(error) is FAULTS["53300"]  # it answers, and has no connection left
        except (OSError, TimeoutError):
            return False
        return bool(rows and rows[0][0])
