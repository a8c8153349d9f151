"""A SQLite store whose rows a test damages."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import msgspec

from tests.integration.support.damaged_store import HEALTHY_NUMBERS, Value, fill, is_healthy
from tests.support.routers import open_router

#: Tables whose rows make up a queue or a topic itself.
STRUCTURE = (
    "headrace_streams",
    "headrace_topics",
    "headrace_groups",
    "headrace_deferred_keys",
    "headrace_events",
)


class Cell(msgspec.Struct, frozen=True):
    """A field of a row. `structural`: it belongs to the queue or the topic, not to a message in it."""

    table: str
    row: int
    column: str
    structural: bool


class SqliteFile:
    """A file that is copied for each example."""

    def __init__(self, folder: Path) -> None:
        self._template, self._path = folder / "template.db", folder / "jobs.db"
        self.url = f"sqlite:///{self._path}"

    async def make(self) -> None:
        backend = open_router(f"sqlite:///{self._template}")
        await backend.open()
        await fill(backend)
        await backend.close()

    def cells(self) -> list[Cell]:
        connection = apsw.Connection(str(self._template))
        tables = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'headrace%'"
            )
        ]
        found = [cell for table in tables for cell in _cells(connection, table)]
        connection.close()
        return found

    def renewed(self) -> apsw.Connection:
        """The file as it was first."""
        for suffix in ("-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        shutil.copy(self._template, self._path)
        return apsw.Connection(str(self._path))

    def damage(self, cell: Cell, value: Value) -> bool:
        """Put the value there; False: the table does not take it. A `bytearray` is text, valid or not."""
        connection = self.renewed()
        mark = "CAST(? AS TEXT)" if isinstance(value, bytearray) else "?"
        bound = bytes(value) if isinstance(value, bytearray) else value
        order = ", ".join(_key_of(connection, cell.table))
        try:
            key = connection.execute(
                f"SELECT {order} FROM {cell.table} ORDER BY {order} LIMIT 1 OFFSET ?", (cell.row,)
            ).fetchall()[0]
            where = " AND ".join(f"{name} IS ?" for name in _key_of(connection, cell.table))
            connection.execute(
                f"UPDATE {cell.table} SET {cell.column} = {mark} WHERE {where}",
                (bound, *key),
            )
        except (apsw.ConstraintError, apsw.MismatchError):
            return False
        finally:
            connection.close()
        return True


def _key_of(connection: apsw.Connection, table: str) -> list[str]:
    columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
    keys = sorted((key, name) for _, name, _, _, _, key in columns if key)
    return [str(name) for _, name in keys]


def _cells(connection: apsw.Connection, table: str) -> list[Cell]:
    if not (keys := _key_of(connection, table)):
        return []
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    rows = connection.execute(f"SELECT * FROM {table} ORDER BY {', '.join(keys)}").fetchall()
    healthy = {
        name: {value for (value,) in connection.execute(f"SELECT {name} FROM headrace_{where}")}
        for name, where in HEALTHY_NUMBERS.items()
    }
    return [
        Cell(table, number, column, table in STRUCTURE)
        for number, row in enumerate(rows)
        if not is_healthy(dict(zip(columns, row, strict=True)), healthy)
        for column in columns
        if column != "seq"  # the table's own numbering: behind the last number there is no other
    ]
