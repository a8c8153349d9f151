"""Examines a file: the SQLite library, the file system, the journal, the disk, the rights, and whether the
file is intact."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import apsw

from headrace.core.errors import HeadraceError
from headrace.core.records.findings import Examination, Finding, Level, fail, ok, spoken_bytes, warn
from headrace.core.runtime.daemon_thread import in_daemon_thread
from headrace.stores.sqlite.connection.connection import JOURNAL_SIZE_LIMIT, OLDEST, Connection, Synchronous
from headrace.stores.sqlite.connection.filesystem import filesystem_of
from headrace.stores.sqlite.file.privacy import readable_by_others
from headrace.stores.sqlite.threads.store_threads import StoreThreads

#: A write-ahead log of more bytes than this has a reader that keeps it from being emptied.
LARGE_JOURNAL = 4 * JOURNAL_SIZE_LIMIT

#: A file of more bytes than this is not checked for damage: that would take many seconds.
LARGE_FILE = 512 << 20

#: Free bytes of a disk: below FEW is a warning, below NONE a failure.
FEW, NONE = 1 << 30, 64 << 20

#: File systems that are empty after a restart of the machine.
FLEETING = frozenset({"tmpfs", "ramfs"})

logger = logging.getLogger("headrace")

_warned: set[tuple[Path, str]] = set()


class SqliteExamination(StoreThreads, Examination):
    _synchronous: Synchronous

    async def examine(self) -> list[Finding]:
        self._use()
        # On its own thread and connection: other verbs must not wait while the whole file is read.
        return await in_daemon_thread(examine_file, self._path, self._synchronous)


def warn_of_risks(path: Path) -> None:
    """Log the problems among the quick findings, once in a process. The check costs almost nothing."""
    for finding in quick_findings(path):
        if finding.level is not Level.OK and (path, finding.name) not in _warned:
            _warned.add((path, finding.name))
            logger.warning("%s (%s): %s; %s", path, finding.name, finding.text, finding.remedy)


def quick_findings(path: Path) -> list[Finding]:
    return [_room(path), _rights(path)]


def examine_file(path: Path, synchronous: Synchronous) -> list[Finding]:
    return [
        _library(),
        _file_system(path),
        *_contents(path),
        _journal_size(path),
        _durability(synchronous),
        *quick_findings(path),
        _privacy(path),
    ]


def _library() -> Finding:
    # Opening the store refuses an older library.
    oldest = ".".join(map(str, OLDEST))
    return ok("library", f"SQLite {apsw.sqlite_lib_version()}; the WAL-reset bug was fixed in {oldest}")


def _file_system(path: Path) -> Finding:
    # Opening the store refuses a network file system.
    kind = filesystem_of(path.parent.resolve())
    if kind in FLEETING:
        return warn("file system", f"{kind}: the file is gone when the machine restarts", "move it to a disk")
    return ok("file system", kind or "not known on this system")


def _contents(path: Path) -> list[Finding]:
    """The findings that need a connection."""
    connection = Connection(path, query_only=True)
    with connection.in_use:
        try:
            connection.open()
            return [_journal_mode(connection), _integrity(connection, path)]
        except (apsw.Error, HeadraceError) as error:
            return [fail("integrity", f"the file cannot be read: {error}", _RESTORE)]
        finally:
            connection.close()


_RESTORE = "stop the workers and restore a copy, or save what can be read: sqlite3 jobs.db .recover"


def _journal_mode(connection: Connection) -> Finding:
    mode = connection.value("PRAGMA journal_mode")
    if mode == "wal":
        return ok("journal", "write-ahead log")
    return fail("journal", f"the journal is {mode!r}", "stop whatever changes it: headrace needs WAL")


def _integrity(connection: Connection, path: Path) -> Finding:
    size = path.stat().st_size
    if size > LARGE_FILE:
        return ok(
            "integrity", f"not checked, because it has {spoken_bytes(size)}: PRAGMA quick_check checks it"
        )
    answer = connection.value("PRAGMA quick_check(1)")
    if answer != "ok":
        return fail("integrity", f"the file is damaged: {str(answer).splitlines()[-1]}", _RESTORE)
    return ok("integrity", f"quick_check finds nothing wrong in {spoken_bytes(size)}")


def _journal_size(path: Path) -> Finding:
    try:
        size = path.with_name(f"{path.name}-wal").stat().st_size
    except OSError:
        size = 0
    if size > LARGE_JOURNAL:
        return warn(
            "journal size",
            f"the write-ahead log has {spoken_bytes(size)}: a long reader keeps it from shrinking",
            "look for a shell, a backup or a debugger with an open transaction",
        )
    return ok("journal size", f"the write-ahead log has {spoken_bytes(size)}")


def _durability(synchronous: Synchronous) -> Finding:
    if synchronous == "FULL":
        return ok("durability", "default: an enqueue returns when the job is on the disk")
    return warn(
        "durability",
        "relaxed: a power failure may undo the last moments, a crash of a process does not",
        "durability='default', where an accepted job must never be lost",
    )


def _room(path: Path) -> Finding:
    disk = shutil.disk_usage(path.parent)
    text = f"{spoken_bytes(disk.free)} of {spoken_bytes(disk.total)} free"
    if disk.free < NONE:
        return fail("disk", text, "make room: new jobs are refused, or are about to be")
    return warn("disk", text, "make room") if disk.free < FEW else ok("disk", text)


def _rights(path: Path) -> Finding:
    folder = path.parent
    if not (_may(path, os.R_OK | os.W_OK) and _may(folder, os.R_OK | os.W_OK | os.X_OK)):
        return fail(
            "rights",
            "this user may not write the file or its folder",
            "give it the right to both: SQLite keeps its log beside the file",
        )
    if path.stat().st_mode & 0o002 or folder.stat().st_mode & 0o1002 == 0o002:
        return warn(
            "rights",
            "every user of this machine may change the file or its folder",
            f"chmod o-w {path} {folder}",
        )
    return ok("rights", "this user may write, and not everybody else")


def _privacy(path: Path) -> Finding:
    if readable_by_others(path):
        return warn(
            "privacy",
            "other users of this machine may read the file, and so what is in the jobs",
            f"chmod go= {path} {path}-*, unless they are meant to",
        )
    return ok("privacy", "no other user may read the file")


def _may(path: Path, how: int) -> bool:
    return os.access(path, how, effective_ids=os.access in os.supports_effective_ids)
