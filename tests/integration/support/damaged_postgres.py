"""Tables of PostgreSQL whose rows a test damages."""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg

from tests.integration.support.damaged_store import HEALTHY_NUMBERS, Value, fill, is_healthy
from tests.support.postgres_server import PostgresServer
from tests.support.routers import open_router

#: Tables whose rows make up a queue or a topic itself.
STRUCTURE = ("streams", "counts", "topics", "groups", "deferred_keys", "events")

#: What no process of an app may change without being refused at once.
FIXED = ("schema_version", "databases")


class Column(msgspec.Struct, frozen=True):
    """A field of a row. `structural`: it belongs to the queue or the topic, not to a message in it."""

    table: str
    row: int
    column: str
    type: str
    structural: bool


class PostgresTables:
    """A database that is made anew from a filled one for each example."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.url = server.url.replace("/postgres", "/damaged")

    async def make(self) -> None:
        self._run("CREATE DATABASE filled")
        backend = open_router(self._server.url.replace("/postgres", "/filled"))
        await backend.open()
        await fill(backend)
        await backend.close()

    def renew(self) -> None:
        """The database as it was first."""
        self._run("DROP DATABASE IF EXISTS damaged WITH (FORCE)")
        self._run("CREATE DATABASE damaged TEMPLATE filled")

    def columns(self) -> list[Column]:
        self.renew()
        with psycopg.connect(self.url) as connection:
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'headrace' ORDER BY 1"
            )
            return [
                column for (table,) in tables if table not in FIXED for column in _columns(connection, table)
            ]

    def damage(self, column: Column, value: Value) -> bool:
        """Put the value there; False: the table does not take it."""
        self.renew()
        table, name = column.table, column.column
        with psycopg.connect(self.url) as connection:
            try:
                _execute(
                    connection,
                    f"UPDATE headrace.{table} AS t SET {name} = %s WHERE ctid = "
                    f"(SELECT ctid FROM headrace.{table} AS t ORDER BY t::text OFFSET {column.row} LIMIT 1)",
                    _converted(value, column.type),
                )
            except (psycopg.DataError, psycopg.IntegrityError):
                connection.rollback()
                return False
        return True

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            _execute(connection, statement)


def _execute(connection: psycopg.Connection[Any], statement: str, *values: object) -> psycopg.Cursor[Any]:
    return connection.execute(statement.encode(), values or None)


def _converted(value: Value, type: str) -> object:
    """The value as far as the type can hold it."""
    match type:
        case "bytea":
            return b"%d" % value if isinstance(value, int) else value
        case "text":
            return value.decode(errors="replace").replace("\0", "\1") if isinstance(value, bytes) else value
        case "boolean":
            return bool(value)
        case _ if type.endswith("[]"):
            return [value] if isinstance(value, int) else None
        case _:
            return value if isinstance(value, int) or value is None else len(value)


def _columns(connection: psycopg.Connection[Any], table: str) -> list[Column]:
    types = _execute(
        connection,
        "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = %s::regclass "
        "AND attnum > 0 AND NOT attisdropped AND attgenerated = ''",
        f"headrace.{table}",
    ).fetchall()
    rows = _execute(connection, f"SELECT * FROM headrace.{table} AS t ORDER BY t::text")
    names = [each.name for each in rows.description or ()]
    healthy = {
        name: {row[0] for row in _execute(connection, f"SELECT {name} FROM headrace.{where}")}
        for name, where in HEALTHY_NUMBERS.items()
    }
    return [
        Column(table, number, name, type, table in STRUCTURE)
        for number, row in enumerate(rows)
        if not is_healthy(dict(zip(names, row, strict=True)), healthy)
        for name, type in types
    ]
