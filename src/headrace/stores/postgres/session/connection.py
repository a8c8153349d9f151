"""One connection to the server: its settings, and statements with `$1` parameters."""

from __future__ import annotations

import asyncio
import functools
import os
import select
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper

from headrace.core.runtime.login import LoginUnavailable, MalformedLogin, asked_login
from headrace.core.runtime.resolver import addresses_of
from headrace.stores.postgres.address import PostgresAddress
from headrace.stores.postgres.faults import (
    MALFORMED_PASSWORD,
    NO_PASSWORD,
    REFUSED_PASSWORD,
    LoginFault,
    is_login_refused,
)

from . import forks
from .arrays import ListDumper, TidList, TidListDumper

Row = tuple[Any, ...]

#: Every int is a bigint and every list of ints a bigint[]: one prepared statement fits all values.
ADAPTERS: Final = AdaptersMap(psycopg.adapters)
ADAPTERS.register_dumper(int, Int8Dumper)
ADAPTERS.register_dumper(list, ListDumper)
ADAPTERS.register_dumper(TidList, TidListDumper)

#: Prepare a statement when a connection has run it this often.
PREPARE_AFTER: Final = 3

#: Seconds within which a new connection must have answered its first statements.
PREPARE_WITHIN: Final = 5.0

#: All statements read ranges of indexes. The planner must not choose another way while a table is empty, and
#: keep that plan when it has a million rows. A step that waits for a lock must then see what is committed.
#: A list of NULLs is sent as text.
SETTINGS: Final = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "default_transaction_isolation": "'read committed'",
    "array_nulls": "on",
}

#: Milliseconds after which the server ends a transaction of a process that has stopped in the middle of a
#: step, so that its locks hold up no other process for longer. The server may have its own value.
IDLE_IN_TRANSACTION: Final = 10_000

_LIMIT: Final = (
    f"SELECT set_config('idle_in_transaction_session_timeout', '{IDLE_IN_TRANSACTION}', {{local}})"
    " WHERE current_setting('idle_in_transaction_session_timeout') = '0'"
)

#: What a connection runs when it is new.
SET: Final = "; ".join(
    [*(f"SET {name} = {value}" for name, value in SETTINGS.items()), _LIMIT.format(local="false")]
)

#: Begins a transaction. Behind a pooler, the settings hold for the transaction alone.
BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
BEGIN_POOLED: Final = "; ".join(
    [
        BEGIN,
        *(f"SET LOCAL {name} = {value}" for name, value in SETTINGS.items()),
        _LIMIT.format(local="true"),
    ]
)


@functools.lru_cache(1000)
def named(sql: str, prefix: str) -> bytes:
    """The statement for the schema of a store."""
    return sql.replace("headrace.", prefix).encode()


class PostgresConnection:
    """Runs statements. `headrace.` in a statement stands for the schema of the store."""

    def __init__(self, raw: AsyncConnection[Row], schema: str, *, pooled: bool = False) -> None:
        self.raw = raw
        self.pooled = pooled
        self._prefix = f"{schema}."
        self.listens = False
        self._noticed = False  # a notification arrived together with an answer
        self._cursor = raw.cursor()
        forks.connections.add(self)

    @classmethod
    async def open(cls, address: PostgresAddress, *, pooled: bool | None = None) -> PostgresConnection:
        """`pooled`: each transaction may have another session of the server. So nothing is prepared, and no
        setting is made, because it would reach other clients of the pooler. None: behind any pooler."""
        conninfo = await _with_addresses(await conninfo_of(address))
        # The environment may name another encoding, and a database in SQL_ASCII would give bytes.
        conninfo = make_conninfo(conninfo, client_encoding="UTF8")
        try:
            raw = await AsyncConnection.connect(
                conninfo,
                autocommit=True,
                prepare_threshold=None,
                context=ADAPTERS_CONTEXT,
                cursor_factory=AsyncRawCursor,
            )
        except psycopg.OperationalError as error:
            if address.credentials is not None and is_login_refused(error):
                # The password may be about to change.
                raise LoginFault(str(error), REFUSED_PASSWORD) from error
            raise
        connection = cls(raw, address.schema, pooled=bool(pooled))
        await connection._prepare(find_pooler=pooled is None)
        return connection

    async def _prepare(self, *, find_pooler: bool) -> None:
        """Make the settings of a new connection. A server that does not answer in time is given up."""
        timer = asyncio.get_running_loop().call_later(PREPARE_WITHIN, self.cut_off)
        try:
            if find_pooler:
                self.pooled = await _is_behind_pooler(self.raw)
            if not self.pooled:
                self.raw.prepare_threshold = PREPARE_AFTER
                await self.raw.execute(SET)
        except BaseException:
            self.drop()
            raise
        finally:
            timer.cancel()

    @property
    def begin(self) -> str:
        return BEGIN_POOLED if self.pooled else BEGIN

    async def rows(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        cursor = self._cursor
        await cursor.execute(self._named(sql), values or None, binary=True)
        return await cursor.fetchall() if cursor.description else []

    async def step(self, sql: str, values: Sequence[object]) -> list[Row]:
        """Run one statement that is a whole step."""
        if not self.pooled:
            return await self.rows(sql, values)
        await self.run(self.begin)
        rows = await self.rows(sql, values)
        await self.change("COMMIT")
        return rows

    async def change(self, sql: str, values: Sequence[object] = ()) -> int:
        """The number of rows that the statement has changed."""
        await self._cursor.execute(self._named(sql), values or None)
        return self._cursor.rowcount

    async def run(self, sql: str) -> Row | None:
        """Run several statements without parameters in one round trip; the first row of the last one."""
        cursor = self._cursor
        await cursor.execute(self._named(sql), prepare=False)
        while cursor.nextset():
            pass
        return await cursor.fetchone() if cursor.description else None

    async def forget_statements(self) -> None:
        """Prepare all statements again when they are run again. psycopg forgets them with the server."""
        await self.run("DEALLOCATE ALL")

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[None]:
        """All statements within see the same state of the database."""
        await self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            if self.is_usable:
                await self.run("COMMIT")

    # --- notifications -----------------------------------------------------------------------------------

    async def listen(self, channel: str) -> None:
        self.raw.add_notify_handler(self._notice)
        await self.change(f'LISTEN "{channel}"')
        self.listens = True

    def _notice(self, _: psycopg.Notify) -> None:
        self._noticed = True

    def forget_notifications(self) -> None:
        """Drop those that have arrived."""
        while self.raw.pgconn.notifies():
            pass
        self._noticed = False

    async def notified(self) -> None:
        """Wait until something arrives: a notification, or the end of the connection. When another task uses
        the connection meanwhile, an answer ends the wait, too."""
        if self._noticed or self.raw.pgconn.notifies():
            return
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        number = os.dup(self.raw.fileno())  # the driver watches its own number
        loop.add_reader(number, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(number)
            os.close(number)

    def _named(self, sql: str) -> bytes:
        return named(sql, self._prefix)

    @property
    def is_usable(self) -> bool:
        return not self.raw.closed and not self.raw.broken

    def is_alive(self) -> bool:
        """Whether the server has not closed it while it was not in use."""
        if not self.is_usable:
            return False
        try:
            if self._waits_with_data():
                self.raw.pgconn.consume_input()
        except psycopg.Error:
            return False
        return self.is_usable

    def _waits_with_data(self) -> bool:
        """Nothing should arrive at a connection that is not in use, except its end."""
        if not hasattr(select, "poll"):
            return False
        poll = select.poll()
        poll.register(self.raw.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    @property
    def is_idle(self) -> bool:
        return self.raw.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

    async def close(self) -> None:
        await self.raw.close()

    def cut_off(self) -> None:
        """Have what waits for an answer fail, as when the server closes the connection."""
        with suppress(OSError), socket.socket(fileno=os.dup(self.raw.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def drop(self) -> None:
        """Close it without an event loop."""
        self.raw.pgconn.finish()


async def _is_behind_pooler(raw: AsyncConnection[Row]) -> bool:
    """Whether a pooler has answered the login: it gives another process number than that of the session."""
    row = await (await raw.execute("SELECT pg_backend_pid()")).fetchone()
    return row is None or row[0] != raw.info.backend_pid


async def conninfo_of(address: PostgresAddress) -> str:
    """With the user and the password that `credentials=` gives. Without it libpq finds them: in the URL, the
    environment, the service file or the password file."""
    if address.credentials is None:
        return address.conninfo
    try:
        user, password = await asked_login(address.credentials, address.description)
    except LoginUnavailable as error:
        raise LoginFault(str(error), NO_PASSWORD) from error
    except MalformedLogin as error:
        raise LoginFault(str(error), MALFORMED_PASSWORD) from error
    login = {"password": password} if user is None else {"user": user, "password": password}
    return make_conninfo(address.conninfo, **login)


async def _with_addresses(conninfo: str) -> str:
    """With an address for each host, and a host once for each address that it has. Without them psycopg would
    resolve names in the event loop's default executor, which belongs to the user."""
    words = conninfo_to_dict(conninfo)
    hosts, ports = _listed(words, "host"), _listed(words, "port") or [""]
    ports = ports * len(hosts) if len(ports) == 1 else ports
    if not hosts or len(ports) != len(hosts) or _listed(words, "hostaddr"):
        return conninfo
    found = await asyncio.gather(*map(_addresses, hosts), return_exceptions=True)
    attempts = [
        (host, address, port)
        for host, port, addresses in zip(hosts, ports, found, strict=True)
        if not isinstance(addresses, BaseException)
        for address in addresses
    ]
    if not attempts:
        raise psycopg.OperationalError(f"failed to resolve host {', '.join(hosts)}: {found[-1]}")
    host, hostaddr, port = (",".join(each) for each in zip(*attempts, strict=True))
    return make_conninfo(conninfo, host=host, hostaddr=hostaddr, port=port)


def _listed(words: Mapping[str, object], name: str) -> list[str]:
    """What the URL, or else the environment, has for each host."""
    value = words.get(name) or os.environ.get(f"PG{name.upper()}")
    return str(value).split(",") if value else []


async def _addresses(host: str) -> list[str]:
    """An empty one for the folder of a Unix socket, which no name at all stands for, too."""
    return [""] if not host or host.startswith(("/", "@")) else await addresses_of(host)


class _Context:
    """psycopg takes adapters from such an object."""

    adapters = ADAPTERS
    connection = None


ADAPTERS_CONTEXT: Final = _Context()
