"""Recognises the connection of a user by its type, and runs statements on it.

Nothing is imported for this: a library that is not installed has no connections. Statements of a synchronous
connection run on the calling thread, those of an asynchronous one on the calling event loop.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

from headrace.core.errors import ConfigurationError
from headrace.core.outbox.database import Dialect, Rows, Statement


class UserConnection:
    """A connection of one library. `given` is what the user passed."""

    is_async = False

    def __init__(self, given: Any) -> None:
        self.given = given

    @property
    def dialect(self) -> Dialect:
        raise NotImplementedError

    @property
    def in_transaction(self) -> bool:
        raise NotImplementedError

    @property
    def is_autocommit(self) -> bool:
        """Whether the library says that there is a transaction, and commits each statement. This is asked
        after the first statement."""
        return False

    def run(self, statement: Statement) -> Rows | Awaitable[Rows]:
        """Run a statement; the answer has its rows, or none."""
        raise NotImplementedError

    async def ask(self, statement: Statement) -> Rows:
        """Run a statement. On a synchronous connection this does not wait for the event loop."""
        answer = self.run(statement)
        rows = await answer if inspect.isawaitable(answer) else answer
        # Texts are bytes where sqlite3 has such a `text_factory`, and psycopg the encoding SQL_ASCII.
        return [tuple(value.decode() if isinstance(value, bytes) else value for value in row) for row in rows]


def _with_marks(statement: Statement, mark: Callable[[int], str]) -> str:
    """The text with the placeholders of a library."""
    return statement.text.format(*map(mark, range(len(statement.values))))


# --- SQLite ------------------------------------------------------------------------------------------------


class Sqlite3(UserConnection):
    dialect: Dialect = "sqlite"

    @property
    def in_transaction(self) -> bool:
        return bool(self.given.in_transaction)

    def run(self, statement: Statement) -> Rows:
        cursor = self.given.cursor()
        cursor.row_factory = None  # that of the user may give anything
        rows: Rows = cursor.execute(_with_marks(statement, lambda _: "?"), statement.values).fetchall()
        return rows


class AioSqlite(UserConnection):
    is_async = True
    dialect: Dialect = "sqlite"

    @property
    def in_transaction(self) -> bool:
        return bool(self.given.in_transaction)

    async def run(self, statement: Statement) -> Rows:
        cursor = await self.given.execute(_with_marks(statement, lambda _: "?"), statement.values)
        cursor.row_factory = None
        try:
            rows: Rows = await cursor.fetchall()
            return rows
        finally:
            await cursor.close()


# --- PostgreSQL --------------------------------------------------------------------------------------------

#: What `transaction_status` of libpq is outside of a transaction.
_IDLE: Final = 0


class Psycopg(UserConnection):
    dialect: Dialect = "postgresql"

    @property
    def in_transaction(self) -> bool:
        return int(self.given.info.transaction_status) != _IDLE

    def run(self, statement: Statement) -> Rows:
        with self._cursor("Cursor") as cursor:
            cursor.execute(_with_marks(statement, lambda _: "%s"), statement.values)
            rows: Rows = cursor.fetchall()
            return rows

    def _cursor(self, kind: str) -> Any:
        """A plain cursor. The user's `cursor_factory` may want other placeholders."""
        psycopg = sys.modules["psycopg"]
        return getattr(psycopg, kind)(self.given, row_factory=psycopg.rows.tuple_row)


class AsyncPsycopg(Psycopg):
    is_async = True

    async def run(self, statement: Statement) -> Rows:  # type: ignore[override]
        async with self._cursor("AsyncCursor") as cursor:
            await cursor.execute(_with_marks(statement, lambda _: "%s"), statement.values)
            rows: Rows = await cursor.fetchall()
            return rows


class Asyncpg(UserConnection):
    is_async = True
    dialect: Dialect = "postgresql"

    @property
    def in_transaction(self) -> bool:
        return bool(self.given.is_in_transaction())

    async def run(self, statement: Statement) -> Rows:
        text = _with_marks(statement, lambda index: f"${index + 1}")
        rows: Rows = await self.given.fetch(text, *statement.values)
        return rows


# --- libraries for several databases -----------------------------------------------------------------------


class SqlAlchemy(UserConnection):
    """A `Connection` or a `Session`."""

    @property
    def dialect(self) -> Dialect:
        return _known_dialect(self._connection.dialect.name)

    @property
    def in_transaction(self) -> bool:
        return bool(self.given.in_transaction())

    @property
    def is_autocommit(self) -> bool:
        given = self.given
        for name in ("sync_session", "sync_connection"):
            given = getattr(given, name, given)
        connection = given.connection() if hasattr(given, "get_bind") else given
        # There is no public way to ask, and the name is not the same in each version.
        return bool(getattr(connection, "_is_autocommit_isolation", bool)())

    @property
    def _connection(self) -> Any:
        """What knows its dialect. A session that is in a transaction has such a connection or gets one."""
        return self.given.get_bind() if hasattr(self.given, "get_bind") else self.given

    def run(self, statement: Statement) -> Rows:
        return _fetched(self.given.execute(*_sqlalchemy_text(statement)))


class AsyncSqlAlchemy(SqlAlchemy):
    """An `AsyncConnection` or an `AsyncSession`."""

    is_async = True

    async def run(self, statement: Statement) -> Rows:  # type: ignore[override]
        return _fetched(await self.given.execute(*_sqlalchemy_text(statement)))


class ScopedSqlAlchemy(SqlAlchemy):
    """A `scoped_session`: the session of this thread."""

    def __init__(self, given: Any) -> None:
        super().__init__(given())


class AsyncScopedSqlAlchemy(AsyncSqlAlchemy):
    """An `async_scoped_session`: the session of this scope."""

    def __init__(self, given: Any) -> None:
        super().__init__(given())


def _sqlalchemy_text(statement: Statement) -> tuple[Any, dict[str, Any]]:
    text = _with_marks(statement, lambda index: f":value_{index}")
    values = {f"value_{index}": value for index, value in enumerate(statement.values)}
    return sys.modules["sqlalchemy"].text(text), values


def _fetched(result: Any) -> Rows:
    return [tuple(row) for row in result.fetchall()] if result.returns_rows else []


class Django(UserConnection):
    """`django.db.connection`, or one of `django.db.connections`."""

    @property
    def dialect(self) -> Dialect:
        return _known_dialect(self.given.vendor)

    @property
    def in_transaction(self) -> bool:
        return bool(self.given.in_atomic_block or not self.given.get_autocommit())

    def run(self, statement: Statement) -> Rows:
        with self.given.cursor() as cursor:
            cursor.execute(_with_marks(statement, lambda _: "%s"), statement.values)
            rows: Rows = cursor.fetchall() if cursor.description else []
            return rows


def _known_dialect(name: str) -> Dialect:
    match name:
        case "sqlite" | "postgresql":
            return name
    raise ConfigurationError(
        f"transaction= takes a connection to PostgreSQL or SQLite, and this one leads to {name}"
    )


# --- recognising -------------------------------------------------------------------------------------------

#: The first part of the module and the name of each class that is recognised.
KINDS: Final[dict[tuple[str, str], type[UserConnection]]] = {
    ("sqlite3", "Connection"): Sqlite3,
    ("aiosqlite", "Connection"): AioSqlite,
    ("psycopg", "Connection"): Psycopg,
    ("psycopg", "AsyncConnection"): AsyncPsycopg,
    ("asyncpg", "Connection"): Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): Asyncpg,
    ("sqlalchemy", "Connection"): SqlAlchemy,
    ("sqlalchemy", "Session"): SqlAlchemy,
    ("sqlalchemy", "scoped_session"): ScopedSqlAlchemy,
    ("sqlalchemy", "AsyncConnection"): AsyncSqlAlchemy,
    ("sqlalchemy", "AsyncSession"): AsyncSqlAlchemy,
    ("sqlalchemy", "async_scoped_session"): AsyncScopedSqlAlchemy,
    ("django", "BaseDatabaseWrapper"): Django,
    ("django", "ConnectionProxy"): Django,
}

SUPPORTED: Final = "psycopg, asyncpg, SQLAlchemy, Django, sqlite3 or aiosqlite"


def recognised(given: object) -> UserConnection:
    """The connection, by the classes of its type; a `ConfigurationError` for any other value."""
    for each in type(given).__mro__:
        kind = KINDS.get((each.__module__.partition(".")[0], each.__name__))
        if kind is not None:
            return kind(given)
    shown = f"{type(given).__module__}.{type(given).__qualname__}"
    raise ConfigurationError(f"transaction= takes a connection of {SUPPORTED}, not a {shown}")
