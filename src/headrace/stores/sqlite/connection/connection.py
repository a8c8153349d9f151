"""One connection of one thread: opened when it is first needed, set up, and opened anew after a mishap."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import apsw

from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.values.decoding import text_of
from headrace.stores.sqlite.faults import Failure, fault_of, unavailable
from headrace.stores.sqlite.privacy import make_private
from headrace.stores.sqlite.threads.fair_write_lock import TURN, FairWriteLock

Synchronous = Literal["FULL", "NORMAL"]
Bindings = Sequence[int | str | bytes | None]

#: Before this version two connections could corrupt a file by resetting its write-ahead log at the same time
#: (sqlite.org/wal.html#walresetbug).
OLDEST: Final = (3, 51, 3)

#: Milliseconds that a statement waits for the write lock of another process.
BUSY_TIMEOUT = 5000

#: The same on the event loop: as long as most hold it. The way through the writer's thread takes longer.
BRIEF_TIMEOUT: Final = 0.3

#: Seconds between two tries at that lock. Most hold it for a fraction of a millisecond, so what somebody
#: waits for is tried again soon, then ever more rarely. The rest is not: what workers claim and settle
#: gathers meanwhile, and they take the lock more rarely from those who append.
HURRIED: Final = 0.00005
PATIENT: Final = 0.001

#: Bytes to which the write-ahead log is cut back once a checkpoint has emptied it. It grows while a long
#: reader keeps the checkpoint from finishing.
JOURNAL_SIZE_LIMIT: Final = 16 * 1024 * 1024

#: Pages of the write-ahead log from which on it is copied into the file.
CHECKPOINT_PAGES: Final = 1000

#: Bytes of a page in the log.
PAGE: Final = 4096 + 24

#: Seconds for which a fork waits until whoever uses a connection is done with it.
FORK_PATIENCE: Final = BUSY_TIMEOUT / 1000 + 1

#: Every connection of this process, so that none is open over a fork.
_connections: weakref.WeakSet[Connection] = weakref.WeakSet()

#: Those that a fork under way has closed and holds, and what it holds so that no file is opened meanwhile.
_held: list[Connection] = []
_opening = threading.Lock()

#: Files that had to stay open over the fork that made this process.
_inherited: set[Path] = set()


class Connection:
    """Every method runs in the thread that owns it, which holds `in_use` from the first to the last of what
    belongs together. Errors are the library's; see `failed`."""

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
        self.met_another = False  # at the write lock, when the last transaction began
        self._urgent = True
        self._checkpoints = checkpoints  # within commits; otherwise the owner does it when it is due
        self.logged = 0  # bytes of the write-ahead log since it was last written from its start
        self.checkpoint_due = False
        self._prepare = prepare
        self._handle: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._turnstile = FairWriteLock(path)
        self.turn = self._turnstile.path
        self.in_use = threading.Lock()
        self.waits_to_open = False
        self.is_wanted = False  # by a fork, which waits until it is not in use
        self.opened = 0  # how often
        _connections.add(self)

    def open(self) -> None:
        """Connect, unless that is so already; a file that was deleted or replaced is noticed here."""
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
        """Whether it is open, and its file is still there."""
        return self._handle is not None and self._file == _identity(self.path)

    def close(self) -> None:
        self._turnstile.close()
        handle, self._handle = self._handle, None
        try:
            if handle is not None:
                handle.close()
        except apsw.Error:
            pass  # It could not tidy up; whoever opens the file next does.

    def abandon(self) -> None:
        """This process is a fork of the one that connected, so the connection must never be closed here, not
        even when the interpreter ends: that could take the write-ahead log away from the parent."""
        self._turnstile.close()
        self.in_use, self.waits_to_open, self.is_wanted = threading.Lock(), False, False
        handle, self._handle = self._handle, None
        if handle is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
            _inherited.add(self.path)

    def failed(self, error: Failure, *, committing: bool = False) -> BackendUnavailable:
        """Undo what was under way, connect anew next time if need be; answers the error to raise."""
        self.undo()
        if fault_of(error).reopen:
            self.close()
        return unavailable(self.path, error, committing=committing)

    # --- statements --------------------------------------------------------------------------------------

    def row(self, sql: str, bindings: Bindings = ()) -> Any:
        """The first row, None when there is none."""
        # All rows are fetched, since a statement that is not finished would hold its snapshot.
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
        """The same for a SELECT that meets text which is no valid UTF-8: a row that somebody has damaged must
        not hide the others. What cannot be read of it is replaced."""
        cursor = self._use().execute(sql, bindings)
        names = [f"c{number}" for number in range(len(cursor.get_description()))]
        cursor.close()
        raw = ", ".join(f"iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name})" for name in names)
        kinds = ", ".join(f"typeof({name})" for name in names)
        sql = f"WITH found({', '.join(names)}) AS ({sql}) SELECT {raw}, {kinds} FROM found"
        rows: list[Any] = self._use().execute(sql, bindings).fetchall()
        return [tuple(map(_readable, row[: len(names)], row[len(names) :])) for row in rows]

    def change(self, sql: str, bindings: Bindings = ()) -> int:
        """Carry out an INSERT, UPDATE or DELETE; answers how many rows it touched."""
        handle = self._use()
        handle.execute(sql, bindings)
        return handle.changes()

    def run(self, sql: str) -> None:
        """A statement that answers nothing, or a script of many."""
        for _ in self._use().execute(sql):
            pass

    def begin(self, *, urgent: bool = True) -> None:
        """`urgent`: somebody waits for it."""
        # IMMEDIATE: a transaction that reads first and then wants to write is refused at once when somebody
        # else wrote in between, whatever the timeout.
        handle = self._use()
        self._urgent, self.met_another = urgent, False
        passing = self._turnstile.enter(urgent=urgent)
        try:
            handle.execute("BEGIN IMMEDIATE")
        finally:
            if passing:
                self._turnstile.leave()

    def begin_at_once(self) -> bool:
        """The same almost without waiting; False: another process holds the lock, or waits for it."""
        handle = self._use()
        passing = self._turnstile.try_to_enter()
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
                self._turnstile.leave(passed=handle.in_transaction)
        return True

    def commit(self) -> None:
        self._use().execute("COMMIT")

    def checkpoint(self) -> None:
        """Copy the write-ahead log into the file, as far as that can be done without waiting."""
        self.checkpoint_due = False
        try:
            self._use().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:
            pass  # the log grows meanwhile; the next commit tries again

    def _note_length(self, _: apsw.Connection, __: str, pages: int) -> int:
        """The library calls this after each commit, with the length of the log."""
        self.logged = pages * PAGE
        self.checkpoint_due = pages >= CHECKPOINT_PAGES
        return apsw.SQLITE_OK

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """What is read inside is of one moment. A transaction that is under way is one already."""
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
        """Copy all of the write-ahead log into the file, and cut it off or have it written from its start.
        False: that could not be done within so many milliseconds, since a long reader keeps it from that."""
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
        """How safe the next commits are; costs nothing when it is so already."""
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
        if self.path in _inherited:
            raise BackendUnavailable(
                f"the SQLite store {self.path} was in use when this process was forked, and cannot be used"
                " here: fork when nothing is under way, or start processes by spawn"
            )
        self.waits_to_open = True
        with _opening:
            self.waits_to_open = False
            make_private(self.path)
            handle = self._handle = apsw.Connection(str(self.path))
        handle.set_busy_handler(self._wait_for_lock)  # before anything that could find the file locked
        # Else statements are prepared anew for each binding, for plans that ours do not need: 13 µs, not 5.
        handle.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self._enter_wal(handle)
        handle.pragma("synchronous", self._synchronous)
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
        """Of another process; False: no longer."""
        now = time.monotonic()
        if tries == 0:
            self._busy_since = now
            self.met_another = True
        waited = now - self._busy_since
        if waited >= self._busy_timeout / 1000:
            return False
        if TURN <= waited < 2 * TURN:
            pause = HURRIED  # whoever held the lock must pass the turnstile again, and stands behind
        else:
            pause = min(PATIENT, HURRIED * 2.0 ** min(tries, 10)) if self._urgent else PATIENT
        time.sleep(pause)
        return True

    def _enter_wal(self, handle: apsw.Connection) -> None:
        """Changing the journal of a new file answers "busy" without waiting when two processes do it."""
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
    """Which file this is; None when it is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _close_all() -> None:
    """SQLite takes locks for a process, and remembers which: a child would believe that it holds those of its
    parent. Then the parent may take the write-ahead log away, and with it what the child has written since
    (sqlite.org/howtocorrupt.html, 2.6). Connections that are closed are made anew where they are needed."""
    _opening.acquire()
    for connection in list(_connections):
        if _take(connection):
            connection.close()
            _held.append(connection)


def _take(connection: Connection) -> bool:
    """False: whoever uses it is not done in time, or waits for the end of the fork to open its file."""
    until = time.monotonic() + FORK_PATIENCE
    connection.is_wanted = True
    try:
        while not connection.in_use.acquire(timeout=0.01):
            if connection.waits_to_open or time.monotonic() > until:
                return False
    finally:
        connection.is_wanted = False
    return True


def _let_go() -> None:
    while _held:
        _held.pop().in_use.release()
    _opening.release()


def _begin_anew() -> None:
    _held.clear()
    _opening.release()
    for connection in list(_connections):
        connection.abandon()


def _readable(value: Any, kind: Any) -> Any:
    return text_of(value) if kind == "text" else value


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_all, after_in_parent=_let_go, after_in_child=_begin_anew)
