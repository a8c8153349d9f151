"""Decides which users may read the file.

Jobs hold private data, so only the owner may read a new file. An existing file keeps its rights.
SQLite gives its log and its shared memory the rights that the file has.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

#: Rights of a new file.
OWNER_ALONE: Final = 0o600


def make_private(path: Path) -> None:
    """Create the file, if there is none. Call this while no connection of this process has the file open:
    closing a file releases all locks that the process holds on it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    try:
        os.close(os.open(os.path.realpath(path), flags, OWNER_ALONE))
    except OSError:
        pass  # the file exists; or it cannot be created, and SQLite reports that better


def rights_of(path: Path) -> int:
    """The read and write rights of the file, for a new file beside it."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode) & 0o666
    except OSError:
        return OWNER_ALONE


def open_beside(path: Path, database: Path) -> int:
    """Open a file beside the database, with the same rights. Does not follow a link at this path."""
    flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.open(path, flags | os.O_CREAT, rights_of(database))


def readable_by_others(path: Path) -> bool:
    """Whether the file's group, or every user, may read it."""
    return bool(rights_of(path) & 0o044)
