"""A file beside the database that keeps room for it: given up when another program has filled the disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from .privacy import open_beside


class ReservedRoom:
    """All processes share one. Where the system cannot allocate room for a file there is none."""

    def __init__(self, path: Path) -> None:
        real = Path(os.path.realpath(path))  # a symbolic link's is beside the database itself
        self._database = real
        self._path = real.with_name(f"{real.name}-reserve")
        self._log = real.with_name(f"{real.name}-wal")

    def hold(self, size: int) -> bool:
        """Take so many bytes of the disk; False: they are not to be had."""
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
        """Whoever is the last to close the database takes it away, as the library does with its log."""
        if not self._log.exists():
            self.release()

    def release(self) -> None:
        """Give them back to the disk."""
        with suppress(OSError):
            self._path.unlink()
