"""Who may read the file.

Jobs hold what is nobody's business, so a new file is for its owner alone. One that is there keeps its rights.
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
    """Make the file, if there is none. To be called while no connection of this process can have it open:
    whoever closes a file takes the locks of its process from it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    try:
        os.close(os.open(os.path.realpath(path), flags, OWNER_ALONE))
    except OSError:
        pass  # it is there; or it cannot be made, which SQLite says better


def rights_of(path: Path) -> int:
    """For those who may read and write the file, and nobody else."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode) & 0o666
    except OSError:
        return OWNER_ALONE


def open_beside(path: Path, database: Path) -> int:
    """An empty file beside the database, with its rights; a link that somebody put there is not followed."""
    flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.open(path, flags | os.O_CREAT, rights_of(database))


def readable_by_others(path: Path) -> bool:
    """Whether its group, or everybody, may read it."""
    return bool(rights_of(path) & 0o044)
