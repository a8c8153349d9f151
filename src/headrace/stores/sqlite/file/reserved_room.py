"""A file beside the database that reserves disk space for it. The store releases this space when another
program has filled the disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from .privacy import open_beside


class ReservedRoom:
    """All processes share one reserve. There is none where the system cannot allocate space for a file."""

    def __init__(self, path: Path) -> None:
        real = Path(os.path.realpath(path))  # behind a symbolic link: beside the database itself
        self._database = real
        self._path = real.with_name(f"{real.name}-reserve")
        self._log = real.with_name(f"{real.name}-wal")

    def hold(self, size: int) -> bool:
        """Reserve `size` bytes of the disk. False: the disk does not have them."""
        if size <= 0 or not hasattr(os, "posix_fallocate"):
            return False
        try:
            file = open_beside(self._path, self._database)
        except OSError:
            return False
        try:
            os.posix_fallocate(file, 0, size)
        except OSError:
            return False
        finally:
            os.close(file)
        return True

    def release_if_unused(self) -> None:
        """The last process that closes the database removes the reserve, as SQLite removes its log."""
        if not self._log.exists():
            self.release()

    def release(self) -> None:
        """Give the reserved bytes back to the disk."""
        with suppress(OSError):
            self._path.unlink()
