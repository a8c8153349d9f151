"""Room on the disk of a database: new messages leave some free, with which the stored ones can be run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import apsw

from .connection import Connection

#: Bytes of a disk that new messages leave free, or a quarter of a small disk, beside as much as the
#: write-ahead log holds: with these what is stored can be settled, which needs room before it gives any back.
RESERVE: Final = 4 * 1024 * 1024

#: Bytes that are free on a disk about which nobody need care.
PLENTY: Final = 16 * RESERVE

#: Milliseconds for which the log is to be emptied on a full disk.
EMPTYING_TIMEOUT: Final = 200


class DiskRoom:
    """Used by the thread that uses the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._path = connection.path

    def is_plentiful(self) -> bool:
        return _free(self._path)[0] >= PLENTY

    def takes(self, size: int) -> bool:
        """Whether the disk can take messages of so many bytes more. When it is nearly full the log is emptied
        while there is still room for what is in it."""
        free, least = _free(self._path)
        if free >= PLENTY:
            return True
        # They are written twice, into the log and then into the file, and their indices with them.
        needed = least + 4 * size if size else least // 2
        if free < needed + 2 * self._logged:
            self.make()
            free, least = _free(self._path)
        if free >= needed + self._logged:
            return True
        return free >= least // 2 + 2 * size + self._logged and free + self._spare >= needed + self._logged

    def make(self) -> bool:
        """Empty the write-ahead log: what is in it goes into the file, which has room for it where messages
        were, and the log's own room is free again. Answers whether that could be done."""
        return self._connection.empty_log(EMPTYING_TIMEOUT)

    @property
    def _spare(self) -> int:
        """Bytes of the file where messages were: what fits there needs new room in the log alone."""
        try:
            pages: int = self._connection.value("PRAGMA freelist_count")
            size: int = self._connection.value("PRAGMA page_size")
        except apsw.Error:
            return 0
        return pages * size

    @property
    def _logged(self) -> int:
        """Bytes of the write-ahead log."""
        try:
            return os.stat(f"{self._path}-wal").st_size
        except OSError:
            return 0


def _free(path: Path) -> tuple[int, int]:
    """Bytes that are free on its disk, and how many of them are to stay so."""
    try:
        found = os.statvfs(path)
    except (AttributeError, OSError):  # not everywhere; or the file is gone, which others will tell
        return PLENTY, 0
    return found.f_bavail * found.f_frsize, min(RESERVE, found.f_blocks * found.f_frsize // 4)
