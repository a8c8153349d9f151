"""An open store on one event loop: its connections, its listener, and the steps that run on them."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

import psycopg
from psycopg.errors import LockNotAvailable
from psycopg.sql import Literal

from headrace.core.errors import BackendUnavailable, StoreMoved
from headrace.core.messages.ids import new_id
from headrace.core.runtime.clock import TimeSource
from headrace.stores.postgres.address import PostgresAddress
from headrace.stores.postgres.faults import REPEATABLE, STALE_STATEMENT, is_lost, unavailable
from headrace.stores.postgres.schema.schema import READ_ID, bring_up_to_date, presence_of
from headrace.stores.postgres.statements.limit_statements import LOCK_FROM_THE_BEGINNING, SHORT_WAITS
from headrace.stores.sql.wake_ups import WakeUps

from .connection import PostgresConnection, Row
from .encryption import warn_of_plain_text
from .listener import NotificationListener, Notifier
from .pool import Pool
from .transaction import PostgresTransaction, TryAgain
from .waiters import WaitingCallers

T = TypeVar("T")

#: How often a transaction is run that the server rolled back because of another one.
ATTEMPTS: Final = 10

#: Seconds after which a step is given up, and its connection closed.
STEP_TIMEOUT: Final = 30.0

#: The durability of steps that a crash of the server may undo.
OFF: Final = "off"


def channel_of(schema: str, namespace: str) -> str:
    """The channel of notifications: an identifier of bounded length for any namespace."""
    return "headrace_" + hashlib.sha256(f"{schema}\n{namespace}".encode()).hexdigest()[:32]


def offset_of(clock: TimeSource) -> int:
    """How far a test has moved the clock. The time itself is the server's."""
    return getattr(clock, "offset_us", 0)


class Session:
    def __init__(
        self, address: PostgresAddress, *, namespace: str, durability: str, clock: TimeSource
    ) -> None:
        self._address = address
        self._namespace = namespace
        self.durability = durability
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._sender = new_id()
        self.channel = channel_of(address.schema, namespace)
        self._running: set[asyncio.Task[Any]] = set()
        self.closing = False
        self.database_id = ""
        self.pool = Pool(address)
        self.waiters = WaitingCallers()
        self._listener = NotificationListener(
            self.pool,
            self.waiters,
            channel=self.channel,
            sender=self._sender,
            presence=presence_of(address.schema),
            description=address.description,
        )
        self._notifier = Notifier(self._notify, sender=self._sender)
        self._lock_of_lines = LOCK_FROM_THE_BEGINNING.format(Literal(namespace).as_string())

    @property
    def at_home(self) -> bool:
        """Whether the caller is on the event loop that opened it."""
        return self._loop is asyncio.get_running_loop()

    @property
    def offset_us(self) -> int:
        return offset_of(self._clock)

    async def open(self) -> None:
        try:
            await self._listener.start()
            async with self.pool.connection() as connection:
                warn_of_plain_text(connection.raw, self._address.description)
                await bring_up_to_date(connection, self._address)
                [(self.database_id,)] = await connection.rows(READ_ID)
        except BaseException as error:
            await self.close()
            if isinstance(error, psycopg.Error):
                raise unavailable(self._address.description, error) from error
            raise

    async def close(self) -> None:
        self.closing = True
        self.waiters.wake_all()
        if self._running:
            await asyncio.wait(self._running)
        await self._notifier.flush()
        await self._listener.stop()
        await self.pool.clear()

    def leave(self) -> None:
        """Give up the connections: the event loop that opened them is gone."""
        self.closing = True
        self._listener.drop()
        self.pool.drop()

    # --- steps -------------------------------------------------------------------------------------------

    async def write(
        self,
        run: Callable[[PostgresTransaction], Awaitable[T]],
        *,
        durable: bool = True,
        lines: bool = False,
        may_wait: bool = False,
    ) -> T:
        """Run a verb in a transaction, again after a deadlock. `lines`: it begins with the lock of lines.
        `may_wait`: it may wait for a transaction of a user."""
        return await self._complete(self._write(run, durable=durable, lines=lines, may_wait=may_wait))

    async def read(self, run: Callable[[PostgresConnection], Awaitable[T]]) -> T:
        """Run a verb that only reads. Each of its statements sees what is committed by then."""
        return await self._complete(self._read(run))

    async def call(self, sql: str, values: Sequence[object], *, may_wait: bool = False) -> list[Row]:
        """Run one statement that is a whole step."""
        return await self._complete(self._call(sql, values, may_wait))

    def notify(self, wake_ups: WakeUps) -> None:
        """Wake the callers that wait for this, here and in other processes."""
        if wake_ups:
            self.waiters.notify(wake_ups)
            if not self.closing:
                self._notifier.notify(wake_ups)

    def start(self, step: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Run a step for which no caller waits."""
        task = asyncio.create_task(step)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    async def _complete(self, step: Coroutine[Any, Any, T]) -> T:
        """Run a step to its end, even when its caller is cancelled: a statement that is cut off would cost
        its connection."""
        if self.closing:
            step.close()
            raise BackendUnavailable(f"the store {self._address.description} is closed: open it first")
        task = asyncio.create_task(self._in_time(step))
        self._running.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def _in_time(self, step: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(STEP_TIMEOUT):
                return await step
        except TimeoutError as error:
            raise BackendUnavailable(
                f"the store {self._address.description} has not answered for {STEP_TIMEOUT:.0f} seconds: look"
                " at the server, and for a transaction that holds a lock",
                uncertain=True,
                transient=True,
            ) from error

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may be gone

    async def _write(
        self,
        run: Callable[[PostgresTransaction], Awaitable[T]],
        *,
        durable: bool,
        lines: bool,
        may_wait: bool,
    ) -> T:
        attempt = 0
        while True:
            try:
                return await self._write_once(run, self.durability if durable else OFF, lines, may_wait)
            except LockNotAvailable:
                # It waits for another transaction, without the lock of lines in between.
                await asyncio.sleep(random.uniform(0.05, 0.2))  # nosec B311 # jitter
            except (*REPEATABLE, TryAgain) as error:
                attempt += 1
                if attempt == ATTEMPTS:
                    raise self._failed(error) from error
                await asyncio.sleep(random.uniform(0, 0.005 * 2**attempt))  # nosec B311 # jitter

    async def _write_once(
        self,
        run: Callable[[PostgresTransaction], Awaitable[T]],
        durability: str,
        lines: bool,
        may_wait: bool,
    ) -> T:
        committing = False
        try:
            async with self.pool.connection(may_wait=may_wait) as connection:
                try:
                    transaction = await self._begin(connection, durability, lines)
                    result = await run(transaction)
                    await transaction.finish()
                    committing = True
                    await connection.change("COMMIT")
                except BaseException:
                    await _roll_back(connection)
                    raise
        except (*REPEATABLE, LockNotAvailable):
            raise
        except psycopg.Error as error:
            raise self._failed(error, uncertain=committing and is_lost(error)) from error
        self.notify(transaction.wake_ups)
        return result

    async def _begin(
        self, connection: PostgresConnection, durability: str, lines: bool
    ) -> PostgresTransaction:
        row = await connection.run(
            f"{connection.begin}; SELECT headrace.now_us({self.offset_us:d}){SHORT_WAITS if lines else ''}"
            f" FROM headrace.set_durability('{durability}')"  # nosec B608 # constants only
            f"{self._lock_of_lines if lines else ''}"
        )
        assert row is not None
        return PostgresTransaction(
            connection,
            namespace=self._namespace,
            channel=self.channel,
            now_us=int(row[0]),
            offset_us=self.offset_us,
            has_lines=lines,
        )

    async def _read(self, run: Callable[[PostgresConnection], Awaitable[T]]) -> T:
        try:
            async with self.pool.connection() as connection:
                try:
                    return await run(connection)
                except STALE_STATEMENT:
                    await connection.forget_statements()
                    return await run(connection)
        except psycopg.Error as error:
            raise self._failed(error) from error

    async def _call(self, sql: str, values: Sequence[object], may_wait: bool) -> list[Row]:
        attempt = 0
        while True:
            sent = False
            try:
                async with self.pool.connection(may_wait=may_wait) as connection:
                    sent = True
                    try:
                        return await connection.step(sql, values)
                    except STALE_STATEMENT:
                        await connection.forget_statements()
                        raise
                    except BaseException:
                        await _roll_back(connection)
                        raise
            except LockNotAvailable:
                await asyncio.sleep(random.uniform(0.05, 0.2))  # nosec B311 # as in `_write`
            except REPEATABLE as error:
                attempt += 1
                if attempt == ATTEMPTS:
                    raise self._failed(error) from error
                await asyncio.sleep(random.uniform(0, 0.005 * 2**attempt))  # nosec B311 # jitter
            except psycopg.Error as error:
                raise self._failed(error, uncertain=sent and is_lost(error)) from error

    async def _notify(self, text: str) -> None:
        async with self.pool.connection() as connection:
            await connection.rows("SELECT pg_notify($1, $2)", (self.channel, text))

    def _failed(
        self, error: psycopg.Error | TryAgain, *, uncertain: bool = False
    ) -> BackendUnavailable | StoreMoved:
        if isinstance(error, TryAgain):
            text = f"the store {self._address.description} is contended by too many transactions: try again"
            return BackendUnavailable(text, transient=True)
        return unavailable(self._address.description, error, uncertain=uncertain)


async def _roll_back(connection: PostgresConnection) -> None:
    if connection.is_usable and not connection.is_idle:
        try:
            await connection.change("ROLLBACK")
        except psycopg.Error:
            pass  # the connection is closed then, and the server rolls back
