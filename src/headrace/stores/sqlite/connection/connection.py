"""One connection of one thread. It is opened and set up when it is first needed, and opened again after a
failure."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import apsw

from headrace.core.encoding.decoding import text_of
from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.stores.sqlite.faults import SqliteError, fault_of, unavailable
from headrace.stores.sqlite.file.privacy import make_private

from . import forks
from .fair_write_lock import TURN, FairWriteLock

Synchronous = Literal["FULL", "NORMAL"]
Bindings = Sequence[int | str | bytes | None]

#: Before this version two connections could corrupt a file by resetting its write-ahead log at the same time
#: (sqlite.org/wal.html#walresetbug).
OLDEST: Final = (3, 51, 3)

#: Milliseconds that a statement waits for the write lock of another process.
BUSY_TIMEOUT = 5000

#: Milliseconds that the event loop waits for that lock: most holders need no longer. The way through the
#: writer's thread takes longer.
BRIEF_TIMEOUT: Final = 0.3

#: Seconds between two tries at that lock. Most holders keep it for a fraction of a millisecond. So urgent
#: steps try again soon, then less and less often. Other steps wait longer: claims and settlements of workers
#: gather meanwhile, and workers take the lock from producers less often.
HURRIED: Final = 0.00005
PATIENT: Final = 0.001

#: Bytes to which the write-ahead log is cut after a checkpoint has emptied it. It grows while a long reader
#: keeps the checkpoint from finishing.
JOURNAL_SIZE_LIMIT: Final = 16 * 1024 * 1024

#: The write-ahead log is copied into the file when it has this many pages.
CHECKPOINT_PAGES: Final = 1000

#: Bytes of a page in the log.
PAGE: Final = 4096 + 24


class Connection:
    """Every method runs in the thread that owns the connection. This thread holds `in_use` during all calls
    that belong together. Methods raise the library's errors; see `failed`."""

    def __init__(
        self,
        path: Path,
        *,
        synchronous: Synchronous = "NORMAL",
        query_only: bool = False,
        busy_timeout: int | None = None,
        checkpoints: bool = True,
        prepare: Callable[[Connection], None] | None = None,
    ) -> None:
        self.path = path
        self._synchronous = synchronous
        self._query_only = query_only
        self._busy_timeout: float = busy_timeout or BUSY_TIMEOUT
        self._busy_since = 0.0
        self.met_another = False  # another process had the write lock when the last transaction began
        self._urgent = True
        self._checkpoints = checkpoints  # within commits; otherwise the owner runs them when they are due
        self.logged = 0  # bytes of the write-ahead log since it was last written from its start
        self.checkpoint_due = False
        self._prepare = prepare
        self._handle: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._fair_lock = FairWriteLock(path)
        self.turn = self._fair_lock.path
        self.in_use = threading.Lock()
        self.waits_to_open = False
        self.is_wanted = False  # a fork waits until it is not in use
        self.opened = 0  # how many times
        forks.connections.add(self)

    def open(self) -> None:
        """Connect, unless connected. Detects a file that was deleted or replaced."""
        if self._handle is not None:
            if self._file == _identity(self.path):
                return
            self.close()
            raise BackendUnavailable(
                f"the SQLite store {self.path} was deleted or replaced while it was open; the next call goes"
                " on with the file that is there now. Stop all workers before touching it",
                transient=True,
            )
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    @property
    def is_ready(self) -> bool:
        """Whether the connection is open, and its file still exists."""
        return self._handle is not None and self._file == _identity(self.path)

    def close(self) -> None:
        self._fair_lock.close()
        handle, self._handle = self._handle, None
        try:
            if handle is not None:
                handle.close()
        except apsw.Error:
            pass  # SQLite could not clean up; the next process that opens the file does.

    def abandon(self) -> None:
        """Drop the connection in a forked process. It must never be closed here, not even when the
        interpreter ends: closing could remove the write-ahead log of the parent."""
        self._fair_lock.close()
        self.in_use, self.waits_to_open, self.is_wanted = threading.Lock(), False, False
        handle, self._handle = self._handle, None
        if handle is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
            forks.inherited.add(self.path)

    def failed(self, error: SqliteError, *, committing: bool = False) -> BackendUnavailable:
        """Roll back, and close the connection if the fault requires it. Returns the error to raise."""
        self.undo()
        if fault_of(error).reopen:
            self.close()
        return unavailable(self.path, error, committing=committing)

    # --- statements --------------------------------------------------------------------------------------

    def row(self, sql: str, bindings: Bindings = ()) -> Any:
        """The first row; None when there is none."""
        # Fetches all rows, because an unfinished statement would hold its snapshot.
        rows = self.rows(sql, bindings)
        return rows[0] if rows else None

    def rows(self, sql: str, bindings: Bindings = ()) -> list[Any]:
        try:
            return self._use().execute(sql, bindings).fetchall()
        except UnicodeDecodeError:
            return self._rows_with_any_text(sql, bindings)

    def value(self, sql: str, bindings: Bindings = ()) -> Any:
        """The only column of the first row."""
        row = self.row(sql, bindings)
        return row[0] if row else None

    def _rows_with_any_text(self, sql: str, bindings: Bindings) -> list[Any]:
        """The rows of a SELECT that found text which is not valid UTF-8. A damaged row must not hide the
        others, so the unreadable text is replaced."""
        cursor = self._use().execute(sql, bindings)
        names = [f"c{number}" for number in range(len(cursor.get_description()))]
        cursor.close()
        raw = ", ".join(f"iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name})" for name in names)
        kinds = ", ".join(f"typeof({name})" for name in names)
        sql = f"WITH found({', '.join(names)}) AS ({sql}) SELECT {raw}, {kinds} FROM found"  # nosec B608 # constants only
        rows: list[Any] = self._use().execute(sql, bindings).fetchall()
        return [tuple(map(_readable, row[: len(names)], row[len(names) :])) for row in rows]

    def change(self, sql: str, bindings: Bindings = ()) -> int:
        """Run an INSERT, UPDATE or DELETE; returns how many rows it changed."""
        handle = self._use()
        handle.execute(sql, bindings)
        return handle.changes()

    def run(self, sql: str) -> None:
        """Run a statement that returns nothing, or a script of several statements."""
        for _ in self._use().execute(sql):
            pass

    def begin(self, *, urgent: bool = True) -> None:
        """Begin a write transaction. `urgent`: a caller waits for it."""
        # IMMEDIATE: otherwise a transaction that reads first and then writes is refused at once when another
        # connection wrote in between, whatever the timeout.
        handle = self._use()
        self._urgent, self.met_another = urgent, False
        passing = self._fair_lock.enter(urgent=urgent)
        try:
            handle.execute("BEGIN IMMEDIATE")
        finally:
            if passing:
                self._fair_lock.leave()

    def begin_at_once(self) -> bool:
        """Begin a write transaction almost without waiting. False: another process holds the lock, or waits
        for it."""
        handle = self._use()
        passing = self._fair_lock.try_to_enter()
        if passing is None:
            return False
        self._urgent = True
        self._busy_timeout, usual = BRIEF_TIMEOUT, self._busy_timeout
        try:
            handle.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return False
        finally:
            self._busy_timeout = usual
            if passing:
                self._fair_lock.leave(passed=handle.in_transaction)
        return True

    def commit(self) -> None:
        self._use().execute("COMMIT")

    def checkpoint(self) -> None:
        """Copy the write-ahead log into the file, as far as possible without waiting."""
        self.checkpoint_due = False
        try:
            self._use().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:
            pass  # the log grows meanwhile; the next commit tries again

    def _note_length(self, _: apsw.Connection, __: str, pages: int) -> int:
        """The library calls this after each commit with the length of the log."""
        self.logged = pages * PAGE
        self.checkpoint_due = pages >= CHECKPOINT_PAGES
        return apsw.SQLITE_OK

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads inside see the file at one moment. An open transaction already gives this."""
        handle = self._use()
        if handle.in_transaction:
            yield
            return
        handle.execute("BEGIN")
        try:
            yield
        finally:
            self.undo()

    def undo(self) -> None:
        """Roll back a transaction that may be open."""
        try:
            if self._handle is not None and self._handle.in_transaction:
                self._handle.execute("ROLLBACK")
        except apsw.Error:
            self.close()

    def empty_log(self, timeout: float, *, cut: bool = True) -> bool:
        """Copy the whole write-ahead log into the file, then cut the log or write it from its start again.
        False: a long reader prevented this for `timeout` milliseconds."""
        self._busy_timeout, usual = timeout, self._busy_timeout
        try:
            [(busy, _, _)] = self.rows(f"PRAGMA wal_checkpoint({'TRUNCATE' if cut else 'RESTART'})")
        except apsw.Error:
            return False
        finally:
            self._busy_timeout = usual
        self.logged = self.logged if busy else 0
        return not busy

    def synchronise(self, synchronous: Synchronous) -> None:
        """Set how safe the next commits are. Costs nothing when nothing changes."""
        if synchronous != self._synchronous:
            self._use().pragma("synchronous", synchronous)
            self._synchronous = synchronous

    # --- connecting --------------------------------------------------------------------------------------

    def _use(self) -> apsw.Connection:
        if self._handle is None:
            raise apsw.ConnectionClosedError("the connection was closed")
        return self._handle

    def _connect(self) -> None:
        check_version()
        if self.path in forks.inherited:
            raise BackendUnavailable(
                f"the SQLite store {self.path} was in use when this process was forked, and cannot be used"
                " here: fork when nothing is under way, or start processes by spawn"
            )
        self.waits_to_open = True
        with forks.opening:
            self.waits_to_open = False
            make_private(self.path)
            handle = self._handle = apsw.Connection(str(self.path))
        handle.set_busy_handler(self._wait_for_lock)  # before anything that could find the file locked
        # Otherwise SQLite prepares a statement again for each binding, for plans that headrace does not need:
        # 13 µs instead of 5.
        handle.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self._enter_wal(handle)
        handle.pragma("synchronous", self._synchronous)
        handle.pragma(
            "fullfsync", True
        )  # for macOS, where a plain fsync leaves the data in the drive's cache
        handle.pragma("journal_size_limit", JOURNAL_SIZE_LIMIT)
        if not self._checkpoints:
            handle.set_wal_hook(self._note_length)
        if self._prepare is not None:
            self._prepare(self)
        if self._query_only:
            handle.pragma("query_only", True)
        self._file = _identity(self.path)
        self.opened += 1

    def _wait_for_lock(self, tries: int) -> bool:
        """SQLite calls this while another process has the lock. False: do not wait any longer."""
        now = time.monotonic()
        if tries == 0:
            self._busy_since = now
            self.met_another = True
        waited = now - self._busy_since
        if waited >= self._busy_timeout / 1000:
            return False
        if TURN <= waited < 2 * TURN:
            pause = HURRIED  # the holder needs a new turn, behind this one
        else:
            pause = min(PATIENT, HURRIED * 2.0 ** min(tries, 10)) if self._urgent else PATIENT
        time.sleep(pause)
        return True

    def _enter_wal(self, handle: apsw.Connection) -> None:
        """Switch to WAL. On a new file SQLite answers "busy" without waiting when two processes do this, so
        this waits and tries again."""
        until = time.monotonic() + self._busy_timeout / 1000
        while True:
            try:
                mode = handle.pragma("journal_mode", "WAL")
            except apsw.BusyError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.005)
                continue
            if mode != "wal":
                raise ConfigurationError(
                    f"{self.path} cannot be used with a write-ahead log (its journal is {mode!r}): this file"
                    " system lacks shared memory; use a local disk"
                )
            return


def check_version() -> None:
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < OLDEST:
        raise ConfigurationError(
            f"SQLite {apsw.sqlite_lib_version()} has a bug that can corrupt a file which several processes"
            " use: install a newer one with pip install --upgrade apsw"
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Identifies the file at this path; None when there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _readable(value: Any, kind: Any) -> Any:
    return text_of(value) if kind == "text" else value
