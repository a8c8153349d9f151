"""Translates SQLite's errors for the caller: one table, from the library's error to a text that says what to
do."""

from __future__ import annotations

from pathlib import Path

import apsw
import msgspec

from headrace.core.errors import BackendUnavailable, RequestRefused


class SqliteFault(msgspec.Struct, frozen=True):
    """`transient`: the fault may pass without help in a moment. `reopen`: the connection is no longer safe to
    use. `doubtful`: a commit that failed with it may still be in the file after a crash."""

    what: str
    advice: str
    transient: bool = False
    reopen: bool = False
    doubtful: bool = False


#: What a statement raises. `OverflowError` comes from apsw: it refuses a number that no table can hold.
SqliteError = apsw.Error | OverflowError
FAILURES = (apsw.Error, OverflowError)

FAULTS: dict[type[SqliteError], SqliteFault] = {
    apsw.BusyError: SqliteFault(
        "is locked by another process",
        "look for one that keeps a transaction open (a shell, a backup, a debugger)",
        transient=True,
    ),
    apsw.LockedError: SqliteFault(
        "is locked by another connection of this process", "try again", transient=True
    ),
    apsw.ReadOnlyError: SqliteFault(
        "cannot be written to",
        "give this user the right to write the file and its folder, or mount the disk for writing",
        reopen=True,
    ),
    apsw.PermissionsError: SqliteFault(
        "may not be opened by this user", "give it the right to read and write the file", reopen=True
    ),
    apsw.FullError: SqliteFault(
        "cannot grow: the disk, a quota or max_page_count is full", "make room; nothing was lost"
    ),
    apsw.IOError: SqliteFault(
        "met an error of the disk",
        "look at the system's log; the store goes on when the disk does",
        reopen=True,
        doubtful=True,
    ),
    apsw.CantOpenError: SqliteFault(
        "cannot be opened", "check that its folder is there and that this user may write in it", reopen=True
    ),
    apsw.CorruptError: SqliteFault(
        "is damaged",
        "stop the workers, and recover it with the sqlite3 shell's .recover, or take a backup",
        reopen=True,
    ),
    apsw.NotADBError: SqliteFault("is no SQLite database", "name another file in the URL", reopen=True),
    apsw.ProtocolError: SqliteFault("is contended by too many processes", "try again", transient=True),
    apsw.SchemaChangeError: SqliteFault("was changed by another process", "try again", transient=True),
    apsw.NoMemError: SqliteFault("cannot be used: memory is short", "free some", transient=True),
    apsw.InterruptError: SqliteFault("was interrupted", "try again", transient=True),
    apsw.ConstraintError: SqliteFault(
        "holds something that headrace never wrote", "look who else writes to the file, or take a backup"
    ),
    OverflowError: SqliteFault(
        "holds a number that headrace never wrote", "look who else writes to the file, or take a backup"
    ),
    apsw.ConnectionClosedError: SqliteFault("was closed", "open the app again", reopen=True),
}

#: A row holds a value that does not fit its table, or a number that no table can hold.
DAMAGED = (apsw.ConstraintError, apsw.MismatchError, OverflowError)


class DamagedFile(RequestRefused):
    """Another program has written invalid data into a stream. Other streams are not affected."""


#: For every error that is not in the table. Its transaction was rolled back.
UNFORESEEN = SqliteFault("refused a statement", "please report this")


def fault_of(error: SqliteError) -> SqliteFault:
    return next((FAULTS[kind] for kind in type(error).__mro__ if kind in FAULTS), UNFORESEEN)


def is_full(error: SqliteError) -> bool:
    return isinstance(error, apsw.FullError)


def nearly_full(path: Path) -> BackendUnavailable:
    """The error for new messages when the disk has room only to run the stored ones."""
    return BackendUnavailable(
        f"the SQLite store {path} takes nothing new: the disk is full but for what workers need to run what"
        " is stored: make room, or let them catch up; nothing was lost"
    )


def unavailable(path: Path, error: SqliteError, *, committing: bool = False) -> BackendUnavailable:
    """The error for the caller. `committing`: the commit itself failed."""
    fault = fault_of(error)
    return _kind_of(error, fault)(
        f"the SQLite store {path} {fault.what} ({error}): {fault.advice}",
        uncertain=committing and fault.doubtful,
        transient=fault.transient,
    )


def _kind_of(error: SqliteError, fault: SqliteFault) -> type[BackendUnavailable]:
    if isinstance(error, DAMAGED):
        return DamagedFile
    return RequestRefused if fault is UNFORESEEN else BackendUnavailable
