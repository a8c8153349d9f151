"""Whether the lock of a SQLite file is free."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

#: Milliseconds that a commit of another process may take.
COMMIT_MS = 150


def is_writable(file: Path) -> bool:
    with closing(apsw.Connection(str(file))) as connection:
        connection.set_busy_timeout(COMMIT_MS)
        try:
            connection.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            return False
        return True
