"""What another program does to a PostgreSQL server, on connections of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from .fleet import PostgresServer

#: Every transaction that begins from now on may only read, or may write again.
REFUSE_WRITES: Final = ("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
ALLOW_WRITES: Final = (
    "SET default_transaction_read_only = off",
    "ALTER SYSTEM RESET default_transaction_read_only",
    "SELECT pg_reload_conf()",
)


@contextmanager
def connected(server: PostgresServer) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with psycopg.connect(server.url, autocommit=True, connect_timeout=5) as connection:
        yield connection


def run(server: PostgresServer, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements on a connection of their own; the rows of the last one."""
    with connected(server) as connection:
        for statement in statements[:-1]:
            connection.execute(statement.encode())
        cursor = connection.execute(statements[-1].encode())
        return cursor.fetchall() if cursor.description else []
