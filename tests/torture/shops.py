"""The producers' own database: a SQLite file with an outbox, or tables in the database of the store."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg

#: The file of the producers' orders, with the outbox, in the folder of the logs.
OUTBOX_FILE: Final = "shop.db"

COLUMNS: Final = "(message TEXT PRIMARY KEY, job TEXT NOT NULL)"

#: Seconds for which a producer waits for the transaction of another.
BUSY: Final = 60.0

#: Seconds between two attempts to connect.
PAUSE: Final = 0.1

#: Several processes may make the table at once.
MADE_ELSEWHERE: Final = (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable)


class Shop(Protocol):
    """A connection to the database of the orders. `table` has them. `mark` stands for a value in a
    statement."""

    begin: str
    table: str
    mark: str
    connection: Any

    def execute(self, sql: str, values: Sequence[object] = ()) -> None: ...

    def connect_again(self) -> None: ...


class SqliteShop:
    begin = "BEGIN IMMEDIATE"
    table = "orders"
    mark = "?"

    def __init__(self, file: Path) -> None:
        apply = [sys.executable, "-m", "headrace", "schema", "apply", f"sqlite:///{file}"]
        subprocess.run(apply, check=True, capture_output=True)
        self.connection = sqlite3.connect(str(file), timeout=BUSY, isolation_level=None)
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {self.table} {COLUMNS}")

    def execute(self, sql: str, values: Sequence[object] = ()) -> None:
        self.connection.execute(sql, values)

    def connect_again(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")


class PostgresShop:
    begin = "BEGIN"
    table = "public.orders"  # the user has the name of the store's schema, which would come first
    mark = "%s"

    def __init__(self, url: str) -> None:
        self._url = url
        self.connection = self._connected()

    def execute(self, sql: str, values: Sequence[object] = ()) -> None:
        self.connection.execute(sql.encode(), values or None)

    def connect_again(self) -> None:
        self.connection.close()
        self.connection = self._connected()

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        while True:
            with contextlib.suppress(psycopg.Error):
                connection = psycopg.connect(self._url, autocommit=True, connect_timeout=3)
                with contextlib.suppress(*MADE_ELSEWHERE):
                    connection.execute(f"CREATE TABLE IF NOT EXISTS {self.table} {COLUMNS}".encode())
                return connection
            time.sleep(PAUSE)
