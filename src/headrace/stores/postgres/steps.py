"""Routes every verb to the open session: as a transaction, as one statement, or as a read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import TimeSource
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.session import Session
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import stream_statements

from .address import PostgresAddress

T = TypeVar("T")


class PostgresSteps:
    """The base of the classes that make up the store."""

    def __init__(
        self, address: PostgresAddress, *, namespace: str, durability: str, clock: TimeSource
    ) -> None:
        self._address = address
        self._namespace = namespace
        self._durability = durability
        self._clock = clock
        self._session: Session | None = None
        self._woken: set[str] = set()
        self._wants_order: dict[Stream, bool] = {}  # of the groups that this process has joined

    @property
    def description(self) -> str:
        return self._address.description

    async def open(self) -> None:
        if self._session is not None:
            if self._session.at_home:
                return
            self._session.leave()
            self._session = None
        session = Session(
            self._address, namespace=self._namespace, durability=self._durability, clock=self._clock
        )
        await session.open()
        self._session = session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        if session.at_home:
            await session.close()
        else:
            session.leave()  # its event loop can no longer wait

    def wake(self, consumer: str) -> None:
        self._woken.add(consumer)
        if self._session is not None:
            self._session.waiters.wake(consumer)

    def _was_woken(self, consumer: str) -> bool:
        woken = consumer in self._woken
        self._woken.discard(consumer)
        return woken

    def _use(self) -> Session:
        session = self._session
        if session is None or not session.at_home:
            raise BackendUnavailable(
                f"the store {self.description} is not open in this process and event loop: open it first"
            )
        return session

    async def _write(
        self,
        run: Callable[[PostgresTransaction], Awaitable[T]],
        *,
        durable: bool = True,
        lines: bool = False,
        may_wait: bool = False,
    ) -> T:
        return await self._use().write(run, durable=durable, lines=lines, may_wait=may_wait)

    async def _read(self, run: Callable[[PostgresConnection], Awaitable[T]]) -> T:
        return await self._use().read(run)

    async def _read_at(self, run: Callable[[PostgresConnection, int], Awaitable[T]]) -> T:
        """Read with the time of the store's clock."""
        session = self._use()

        async def read(connection: PostgresConnection) -> T:
            [(now_us,)] = await connection.rows(stream_statements.NOW, (session.offset_us,))
            return await run(connection, now_us)

        return await session.read(read)
