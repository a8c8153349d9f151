"""An outbox in a SQLite file of the user.

It is opened with `sqlite3` of the standard library, as the user does. Two SQLite libraries in one process
must not have one file open: when one of them closes the file, the operating system drops the locks of the
other.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.messages.outgoing import Outgoing, encode_outgoing
from headrace.core.outbox.database import Ask, Dialect, OutboxDatabase, Recognition, Statement
from headrace.core.outbox.outbox import OutboxRecord, OutgoingBatch, OutgoingEntry
from headrace.core.rules.outbox import OpenBatch, new_batches, stored_batch
from headrace.core.runtime.clock import TimeSource
from headrace.core.runtime.daemon_thread import in_daemon_thread
from headrace.stores.sqlite.file.address import path_of

T = TypeVar("T")

#: The tables, which may be made any number of times.
SCHEMA: Final = files(__package__).joinpath("sqlite.sql").read_text(encoding="utf-8")

#: Seconds to wait for a transaction of the user.
BUSY: Final = 2.0

#: Rows in one statement.
ROWS: Final = 100

_encode = msgspec.msgpack.Encoder().encode

IDENTITY: Final = """
SELECT file, EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'headrace_outbox')
FROM pragma_database_list WHERE name = 'main'
"""

SIZES: Final = "SELECT length(content) FROM headrace_outbox WHERE namespace = ? ORDER BY seq LIMIT ?"
#: Columns of SQLite take values of any type, so another program may have written text in place of a number.
AT: Final = "CASE typeof(at_us) WHEN 'integer' THEN at_us ELSE 0 END"
READ: Final = (
    f"SELECT {AT}, CAST(content AS BLOB) FROM headrace_outbox WHERE namespace = ? ORDER BY seq LIMIT ?"  # nosec B608
)
NUMBERS: Final = "SELECT seq FROM headrace_outbox WHERE namespace = ? ORDER BY seq LIMIT ?"
FORGET: Final = "DELETE FROM headrace_outbox WHERE seq = ?"
COUNT: Final = f"SELECT count(*), min({AT}) FROM headrace_outbox WHERE namespace = ?"  # nosec B608
IS_ANY: Final = "SELECT EXISTS (SELECT 1 FROM headrace_outbox WHERE namespace = ?)"
READ_BATCH: Final = "SELECT CAST(batch AS BLOB) FROM headrace_outbox_batches WHERE namespace = ?"
WRITE_BATCH: Final = "INSERT OR REPLACE INTO headrace_outbox_batches (namespace, batch) VALUES (?, ?)"


class SqliteOutbox(OutboxDatabase):
    """The outbox in a SQLite file of the user. Statements outside of a transaction of the user run in a
    thread, one call at a time."""

    dialect: Dialect = "sqlite"
    look_every = 0.2

    def __init__(self, url: str, *, namespace: str, clock: TimeSource) -> None:
        self.url = url
        self.path: Path = path_of(url)
        self.name = f"SQLite file {self.path}"
        self._namespace = namespace
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._lock = asyncio.Lock()
        self._empty_at: int | None = None  # the version of the file at which the outbox was found empty

    def for_other_loop(self) -> SqliteOutbox:
        return SqliteOutbox(self.url, namespace=self._namespace, clock=self._clock)

    # --- on the connection of a user ---------------------------------------------------------------------

    @property
    def is_prepared(self) -> bool:
        return True

    async def prepare(self) -> None:
        """The path says which file it is."""

    async def recognise(self, ask: Ask) -> Recognition:
        rows = await ask(Statement(IDENTITY))
        file, has_tables = rows[0] if rows else ("", 0)
        if not file or not self.is_in(Path(file)):
            return Recognition.UNKNOWN
        return Recognition.KNOWN if has_tables else Recognition.NO_TABLES

    async def write(self, ask: Ask, outgoing: Sequence[Outgoing]) -> None:
        contents, at_us = [encode_outgoing(each) for each in outgoing], self._clock.now_us()
        for start in range(0, len(contents), ROWS):
            some = contents[start : start + ROWS]
            marks = ", ".join(["({}, {}, {})"] * len(some))
            text = f"INSERT INTO headrace_outbox (namespace, at_us, content) VALUES {marks}"  # nosec B608 # marks only
            values = [value for content in some for value in (self._namespace, at_us, content)]
            await ask(Statement(text, tuple(values)))

    def is_in(self, file: Path) -> bool:
        return self.path.resolve() == file.resolve()

    # --- for relays --------------------------------------------------------------------------------------

    async def take(self, *, relay: str, limit: int, hold_us: int) -> list[OutgoingBatch]:
        return await self._run(lambda handle: self._take(handle, relay, limit, hold_us))

    async def hand_on(self, batch: OutgoingBatch, *, kept: Sequence[int] = ()) -> None:
        await self._run(lambda handle: self._hand_on(handle, batch, frozenset(kept)))

    async def record(self) -> OutboxRecord:
        def count(handle: sqlite3.Connection) -> OutboxRecord:
            waiting, at_us = handle.execute(COUNT, (self._namespace,)).fetchone()
            oldest_us = max(0, self._clock.now_us() - at_us) if waiting else 0
            return OutboxRecord(None, waiting, oldest_us)

        return await self._run(count)

    async def apply(self) -> str:
        await self._run(lambda handle: handle.executescript(SCHEMA), create=True)
        return f"{self.name} has the tables of an outbox"

    async def close(self) -> None:
        async with self._lock:
            handle, self._connection = self._connection, None
            self._empty_at = None
            if handle is not None:
                await in_daemon_thread(handle.close)

    def _take(self, handle: sqlite3.Connection, relay: str, limit: int, hold_us: int) -> list[OutgoingBatch]:
        version = handle.execute("PRAGMA data_version").fetchone()[0]
        if version == self._empty_at or not handle.execute(IS_ANY, (self._namespace,)).fetchone()[0]:
            self._empty_at = version
            return []
        self._empty_at = None
        if not _begun(handle):
            return []  # a transaction of the user is under way; the next look finds the rows
        with _ended(handle):
            now_us = self._clock.now_us()
            sizes = [size for (size,) in handle.execute(SIZES, (self._namespace, limit))]
            before = self._open_batch(handle)
            if not sizes or before.is_held(relay, hold_us, now_us):
                return []
            taken = before.taken(relay, now_us + hold_us, sizes, limit)
            handle.execute(WRITE_BATCH, (self._namespace, _encode(taken)))
            rows = handle.execute(READ, (self._namespace, taken.count)).fetchall()
        entries = tuple(OutgoingEntry(content, max(0, now_us - at_us)) for at_us, content in rows)
        return [OutgoingBatch(None, taken.producer, taken.number, entries)]

    def _hand_on(self, handle: sqlite3.Connection, batch: OutgoingBatch, kept: frozenset[int]) -> None:
        handle.execute("BEGIN IMMEDIATE")
        with _ended(handle):
            under_way = self._open_batch(handle)
            if (under_way.producer, under_way.number) != (batch.producer, batch.number):
                return
            rows = handle.execute(NUMBERS, (self._namespace, under_way.count)).fetchall()
            handle.executemany(FORGET, [row for index, row in enumerate(rows) if index not in kept])
            handle.execute(WRITE_BATCH, (self._namespace, _encode(under_way.handed_on())))

    def _open_batch(self, handle: sqlite3.Connection) -> OpenBatch:
        row = handle.execute(READ_BATCH, (self._namespace,)).fetchone()
        return stored_batch(row and row[0]) or new_batches()

    async def _run(self, call: Callable[[sqlite3.Connection], T], *, create: bool = False) -> T:
        async with self._lock:
            return await in_daemon_thread(self._call, call, create)

    def _call(self, call: Callable[[sqlite3.Connection], T], create: bool) -> T:
        try:
            if self._connection is None:
                self._connection = self._open(create)
            return call(self._connection)
        except sqlite3.Error as error:
            if "no such table" in str(error):
                raise ConfigurationError(
                    f"{self.name} has no table headrace_outbox: run `headrace schema apply {self.url}`"
                ) from error
            raise BackendUnavailable(f"the outbox in {self.path}: {error}", transient=True) from error

    def _open(self, create: bool) -> sqlite3.Connection:
        mode = "rwc" if create else "rw"
        return sqlite3.connect(
            f"{self.path.resolve().as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY,
            isolation_level=None,
            check_same_thread=False,
        )


def _begun(handle: sqlite3.Connection) -> bool:
    """Begin a transaction that writes. False: another one takes longer than `BUSY`."""
    try:
        handle.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            return False
        raise
    return True


@contextmanager
def _ended(handle: sqlite3.Connection) -> Iterator[None]:
    """Commit at the end of the block, or roll back after an error."""
    try:
        yield
    except BaseException:
        handle.execute("ROLLBACK")
        raise
    handle.execute("COMMIT")
